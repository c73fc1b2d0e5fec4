// BiSeNetV2 (Yu et al., IJCV 2021) for images in which every pixel has a class,
// with FedSeg's projection head. Tensors are named as in CoinCheung's PyTorch
// code, whose pre-trained files can so be read.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fedmrn::train {

struct BiSeNetV2 {
  enum class Kind {
    kConvolution,
    kOnes,  // initially, as are:
    kZeros,
    kMean,  // running statistics
    kVariance,
  };
  struct Tensor {
    std::string name;
    std::vector<int64_t> shape;
    Kind kind;
  };

  std::vector<Tensor> tensors;
  // Methods in TorchScript, for MakeTorchScript. `forward` takes normalised
  // images, NCHW, whose sides are multiples of kStep, and gives class scores
  // per pixel; in training with those of the four auxiliary heads after them.
  std::string source;

  static constexpr int64_t kStep = 32;
  // Whether a tensor belongs to what can be pre-trained.
  static bool InBackbone(const std::string& name);
  // Whether it belongs to a head; heads learn faster.
  static bool InHead(const std::string& name);
};

// `mean` and `std` are those that images are normalised by.
BiSeNetV2 DefineBiSeNetV2(uint32_t classes, std::span<const float> mean,
                          std::span<const float> std);

}  // namespace fedmrn::train
