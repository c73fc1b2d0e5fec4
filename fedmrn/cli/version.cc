#include "fedmrn/cli/version.h"

#include <archive.h>
#include <curl/curl.h>
#include <fmt/core.h>
#include <link.h>
#include <matio.h>
#include <openssl/crypto.h>
#include <png.h>
#include <xxhash.h>
#include <zlib.h>

#include <CLI/Version.hpp>
#include <array>
#include <filesystem>
#include <set>
#include <system_error>

#include "fedmrn/base/json.h"
#include "fedmrn/sim/ranks.h"
#include "fedmrn/train/kernels/vector_units.h"
#include "fedmrn/train/torch/torch_module.h"
#include "hwy/highway.h"
#include "oneapi/dnnl/dnnl.h"
#include "toml++/impl/version.h"

namespace fedmrn::cli {
namespace {

std::string Dotted(int major, int minor, int patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

// The number has `base` for each of its parts: 10203 with 100 is 1.2.3.
std::string DottedOf(unsigned number, unsigned base) {
  return Dotted(static_cast<int>(number / base / base),
                static_cast<int>(number / base % base),
                static_cast<int>(number % base));
}

std::string MatioVersion() {
  int major = 0, minor = 0, release = 0;
  Mat_GetLibraryVersion(&major, &minor, &release);
  return Dotted(major, minor, release);
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return Dotted(version->major, version->minor, version->patch);
}

// null: the module is not there.
template <typename Module>
Json VersionOf(const Result<const Module*>& module) {
  return module ? Json((*module)->version()) : Json();
}

Json Libraries() {
  return {
      {"cli11", CLI11_VERSION},
      {"fmt", DottedOf(FMT_VERSION, 100)},
      {"highway", Dotted(HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
      {"libarchive", DottedOf(archive_version_number(), 1000)},
      {"libcurl", curl_version_info(CURLVERSION_NOW)->version},
      {"libpng", DottedOf(png_access_version_number(), 100)},
      {"libtorch", VersionOf(train::LoadTorchModule())},
      {"libturbojpeg", FEDMRN_TURBOJPEG_VERSION},
      {"matio", MatioVersion()},
      {"mpi", VersionOf(sim::LoadMpiModule())},
      {"nlohmann-json",
       Dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
              NLOHMANN_JSON_VERSION_PATCH)},
      {"onednn", OneDnnVersion()},
      {"openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"toml++", Dotted(TOML_LIB_MAJOR, TOML_LIB_MINOR, TOML_LIB_PATCH)},
      {"xxhash", DottedOf(XXH_VERSION_NUMBER, 100)},
      {"zlib", zlibVersion()},
  };
}

// Their files, with links followed: the real name often has a version.
std::set<std::string> SharedObjects() {
  std::set<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        std::error_code error;
        const std::filesystem::path file =
            std::filesystem::canonical(object->dlpi_name, error);
        // Not the program, nor the kernel's, which have no file of a name.
        if (!error && !file.empty() && *object->dlpi_name != '\0') {
          static_cast<std::set<std::string>*>(into)->insert(file);
        }
        return 0;
      },
      &files);
  return files;
}

}  // namespace

std::string VersionJson() {
#ifdef __clang__
  constexpr const char* kCompiler = __VERSION__;  // begins with its name
#else
  constexpr const char* kCompiler = "g++ " __VERSION__;
#endif
  Json out;
  out["fedmrn"] = FEDMRN_VERSION;
  out["compiler"] = kCompiler;
  out["simd"] = train::SimdTarget();
  out["libraries"] = Libraries();  // opens what is opened when needed
  out["shared_objects"] = SharedObjects();
  return JsonText(out, 2);
}

}  // namespace fedmrn::cli
