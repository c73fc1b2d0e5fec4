// Data in words, for messages: what a network would be given.
#pragma once

#include <string>

#include "fedmrn/train/data/data.h"

namespace fedmrn::train {

// "images of 28 x 28 x 1 (height, width, channels)", "numbers of shape (13)".
std::string DescribeInput(const Data& data);
// "a class of 10", "a number".
std::string DescribeTarget(const Data& data);

}  // namespace fedmrn::train
