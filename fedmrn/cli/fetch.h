// Files from public addresses, and the digests that verify them.
#pragma once

#include <string>

#include "fedmrn/base/result.h"

namespace fedmrn::cli {

struct Digest {
  std::string algorithm;  // sha256 or sha512
  std::string hex;
};

// The digest of a file's bytes, or of what is packed in it with gzip, in hex.
Result<std::string> FileDigest(const std::string& path,
                               const std::string& algorithm,
                               bool unpack = false);

// npm's form, such as sha512-BASE64.
Result<Digest> ParseIntegrity(const std::string& integrity);

// A small text such as JSON.
Result<std::string> FetchText(const std::string& url);

// Writes PATH.part, which a later call continues if this one is interrupted,
// and renames it to PATH when it is complete and has the digest. Shows a bar
// if stderr is a terminal.
Status FetchFile(const std::string& url, const std::string& path,
                 const Digest& digest);

}  // namespace fedmrn::cli
