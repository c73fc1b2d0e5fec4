#include "fedmrn/train/data/describe.h"

namespace fedmrn::train {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape, const char* between) {
  std::string text;
  for (const int64_t extent : shape) {
    text += (text.empty() ? "" : between) + std::to_string(extent);
  }
  return text;
}

}  // namespace

std::string DescribeInput(const Data& data) {
  switch (data.input) {
    case Input::kImages:
      return "images of " + ShapeText(data.shape, " x ") +
             " (height, width, channels)";
    case Input::kTokens:
      return "tokens below " + std::to_string(data.vocabulary) + " of shape (" +
             ShapeText(data.shape, ", ") + ")";
    case Input::kNumbers:
      return "numbers of shape (" + ShapeText(data.shape, ", ") + ")";
  }
  return "";
}

std::string DescribeTarget(const Data& data) {
  const std::string classes = "a class of " + std::to_string(data.classes);
  switch (data.target) {
    case Target::kClass:
      return classes;
    case Target::kPixelClasses:
      return classes + " for each pixel";
    case Target::kNumbers:
      return data.target_shape.empty()
                 ? "a number"
                 : "numbers of shape (" + ShapeText(data.target_shape, ", ") +
                       ")";
  }
  return "";
}

}  // namespace fedmrn::train
