// Any bytes as MNIST's files, images and labels, packed or not, or as the
// archive of all four.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fedmrn/base/check.h"
#include "fedmrn/train/data/rows.h"
#include "fuzz/input.h"
#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fedmrn;
  static MemoryFile images, labels;
  FuzzInput input(data, size, 2);
  train::ImageData set;
  set.name = "set";
  set.height = 2;
  set.width = 3;
  set.channels = 1;
  set.classes = 10;
  Status read = Ok();
  if (input.kind() == 0) {
    const std::string first = images.With(input.Piece());
    const std::string second = labels.With(input.rest());
    read = train::LoadIdx(std::vector{first, second, first, second}, set);
  } else {
    read = train::LoadIdxTar(std::vector{images.With(input.rest())}, set);
  }
  if (!read) {
    FEDMRN_CHECK(!read.error().message.empty());
    return 0;
  }
  for (const train::Examples* part : {&set.train, &set.test}) {
    FEDMRN_CHECK(part->size() > 0);
    FEDMRN_CHECK(part->pixels.size() == 6 * part->size());
    for (const uint16_t label : part->labels) FEDMRN_CHECK(label < 10);
  }
  return 0;
}
