#include "fedmrn/cli/fetch.h"

#include <curl/curl.h>
#include <fmt/core.h>
#include <openssl/evp.h>
#include <zlib.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "fedmrn/base/stopwatch.h"
#include "fedmrn/cli/live.h"

namespace fedmrn::cli {
namespace {

Error Failed(const std::string& name, const std::string& what) {
  return {ErrorCode::kFailed, name + ": " + what};
}

std::string ToHex(const unsigned char* bytes, size_t size) {
  std::string hex;
  for (size_t i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
  return hex;
}

using Curl = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;

Curl NewTransfer(const std::string& url) {
  static const bool started = curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK;
  Curl curl(started ? curl_easy_init() : nullptr, &curl_easy_cleanup);
  if (!curl) return curl;
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(curl.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes a second ...
  set(CURLOPT_LOW_SPEED_TIME, 60L);  // ... for so long: gives up
  set(CURLOPT_USERAGENT, "fedmrn");
  // As the curl program does; the library alone does not.
  for (const char* variable : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (const char* file = std::getenv(variable);
        file != nullptr && *file != '\0') {
      set(CURLOPT_CAINFO, file);
      break;
    }
  }
  return curl;
}

// A bar on stderr while it lives, if that is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(uint64_t resumed)
      : resumed_(static_cast<double>(resumed)),
        live_([this](const TerminalSize&) { return Lines(); }) {}

  static int Update(void* self, curl_off_t total, curl_off_t now, curl_off_t,
                    curl_off_t) {
    static_cast<ProgressBar*>(self)->total_ = static_cast<double>(total);
    static_cast<ProgressBar*>(self)->now_ = static_cast<double>(now);
    return 0;
  }

 private:
  std::vector<std::string> Lines() const {
    if (total_ <= 0) return {};
    const double all = total_ + resumed_, share = (now_ + resumed_) / all;
    return {fmt::format("  {} {:3.0f} % of {:.1f} MB, {:.1f} MB/s", Bar(share),
                        100 * share, all / 1e6,
                        now_ / 1e6 / (watch_.seconds() + 1e-3))};
  }

  const double resumed_;  // bytes, as are the next two
  std::atomic<double> total_ = 0, now_ = 0;
  const Stopwatch watch_;
  LiveLines live_;  // the last: it calls Lines as long as it lives
};

// One attempt, from where `part` ends.
CURLcode Download(const std::string& url, const std::string& part,
                  std::string& what, long& response) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(
      std::fopen(part.c_str(), "ab"), &std::fclose);
  const Curl curl = NewTransfer(url);
  if (!file || !curl) {
    what = part + ": cannot be written: " + std::strerror(errno);
    return CURLE_WRITE_ERROR;
  }
  std::error_code ignored;
  const uint64_t have = std::filesystem::file_size(part, ignored);
  char message[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, file.get());
  curl_easy_setopt(curl.get(), CURLOPT_RESUME_FROM_LARGE,
                   static_cast<curl_off_t>(have));
  ProgressBar bar(have);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &ProgressBar::Update);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &bar);
  CURLcode code = curl_easy_perform(curl.get());
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &response);
  if (code == CURLE_OK && std::fflush(file.get()) != 0) {
    code = CURLE_WRITE_ERROR;
  }
  what = url + ": " + (*message != '\0' ? message : curl_easy_strerror(code));
  return code;
}

}  // namespace

Result<std::string> FileDigest(const std::string& path,
                               const std::string& algorithm, bool unpack) {
  const EVP_MD* kind = EVP_get_digestbyname(algorithm.c_str());
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (kind == nullptr || EVP_DigestInit_ex(context.get(), kind, nullptr) != 1) {
    return Failed(path, "no digest is called " + algorithm);
  }
  std::vector<unsigned char> block(1 << 18);
  const auto update = [&](size_t size) {
    EVP_DigestUpdate(context.get(), block.data(), size);
  };
  if (unpack) {
    const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(
        gzopen(path.c_str(), "rb"), &gzclose);
    if (!file) return Failed(path, "cannot be opened");
    int got;
    while ((got = gzread(file.get(), block.data(),
                         static_cast<unsigned>(block.size()))) > 0) {
      update(static_cast<size_t>(got));
    }
    if (got < 0) return Failed(path, "is damaged");
  } else {
    const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(
        std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!file) return Failed(path, std::strerror(errno));
    size_t got;
    while ((got = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
      update(got);
    }
    if (std::ferror(file.get()) != 0) {
      return Failed(path, std::strerror(errno));
    }
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  return ToHex(digest.data(), size);
}

Result<Digest> ParseIntegrity(const std::string& integrity) {
  const size_t dash = integrity.find('-');
  const std::string algorithm = integrity.substr(0, dash);
  const size_t bytes = algorithm == "sha512"   ? 64
                       : algorithm == "sha256" ? 32
                                               : 0;
  const std::string text =
      dash == std::string::npos ? "" : integrity.substr(dash + 1);
  // Three bytes in four characters, the last ones padded.
  std::vector<unsigned char> decoded(text.size());
  if (bytes == 0 || text.size() != (bytes + 2) / 3 * 4 ||
      EVP_DecodeBlock(decoded.data(),
                      reinterpret_cast<const unsigned char*>(text.data()),
                      static_cast<int>(text.size())) < 0) {
    return Error{ErrorCode::kBadFormat,
                 "not a sha256 or sha512 in base 64: " + integrity};
  }
  return Digest{algorithm, ToHex(decoded.data(), bytes)};
}

Result<std::string> FetchText(const std::string& url) {
  constexpr size_t kMaxBytes = 1 << 24;
  const Curl curl = NewTransfer(url);
  if (!curl) return Failed(url, "libcurl does not start");
  std::string text;
  char message[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl.get(), CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &text);
  curl_easy_setopt(
      curl.get(), CURLOPT_WRITEFUNCTION,
      +[](char* data, size_t size, size_t count, void* to) -> size_t {
        auto& all = *static_cast<std::string*>(to);
        if (all.size() + size * count > kMaxBytes) return 0;
        all.append(data, size * count);
        return size * count;
      });
  const CURLcode code = curl_easy_perform(curl.get());
  if (code == CURLE_OK) return text;
  return Failed(url, *message != '\0' ? message : curl_easy_strerror(code));
}

Status FetchFile(const std::string& url, const std::string& path,
                 const Digest& digest) {
  const std::string part = path + ".part";
  std::error_code error;
  std::string what;
  long response = 0;
  CURLcode code = Download(url, part, what, response);
  // The server cannot continue, or there is nothing after what we have.
  if (code == CURLE_RANGE_ERROR || response == 416) {
    std::filesystem::remove(part, error);
    code = Download(url, part, what, response);
  }
  if (code != CURLE_OK) {
    if (std::filesystem::file_size(part, error) == 0) {
      std::filesystem::remove(part, error);
    }
    return Error{ErrorCode::kFailed, what};
  }
  const Result<std::string> actual = FileDigest(part, digest.algorithm);
  if (!actual) return actual.error();
  if (*actual != digest.hex) {
    std::filesystem::remove(part, error);
    return Error{ErrorCode::kBadChecksum,
                 fmt::format("{}: has {} {}, not {}: thrown away", url,
                             digest.algorithm, *actual, digest.hex)};
  }
  std::filesystem::rename(part, path, error);
  if (error) return Failed(path, error.message());
  return Ok();
}

}  // namespace fedmrn::cli
