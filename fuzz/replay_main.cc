// Runs saved inputs through a fuzz target without libFuzzer, so that ctest can,
// with any compiler: REPLAY FOLDER...
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
    return 2;
  }
  for (int a = 1; a < argc; ++a) {
    std::vector<fs::path> paths;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(argv[a], failure)) {
      if (entry.is_regular_file()) paths.push_back(entry.path());
    }
    if (failure || paths.empty()) {
      std::fprintf(stderr, "%s: no inputs in the folder%s%s\n", argv[a],
                   failure ? ": " : "",
                   failure ? failure.message().c_str() : "");
      return 1;
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      // The last name printed is the one that crashed.
      std::printf("%s\n", path.filename().c_str());
      std::fflush(stdout);
      std::ifstream file(path, std::ios::binary);
      const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
      if (!file) {
        std::fprintf(stderr, "%s: cannot read it\n", path.c_str());
        return 1;
      }
      LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()),
                             bytes.size());
    }
    std::printf("%s: %zu inputs replayed\n", argv[a], paths.size());
  }
  return 0;
}
