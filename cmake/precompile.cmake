# Headers that most files of a library include, read once instead of once for
# each file: they take the compiler longer than the files themselves. The core
# has none, so that each of its files shows that it includes what it needs.

# fedmrn_precompile(TARGET HEADER...): the standard library's and HEADER...
function(fedmrn_precompile target)
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional>
    <map> <memory> <optional> <span> <sstream> <string> <string_view> <thread>
    <utility> <vector> ${ARGN})
endfunction()
