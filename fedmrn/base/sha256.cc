#include "fedmrn/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "fedmrn/base/check.h"

namespace fedmrn {

std::string Sha256Hex(ByteView bytes) {
  std::array<uint8_t, 32> digest;
  unsigned size = 0;
  FEDMRN_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size,
                          EVP_sha256(), nullptr) == 1 &&
               size == digest.size());
  std::string hex;
  for (uint8_t byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

}  // namespace fedmrn
