#include "fedmrn/train/model/torchscript.h"

#include <fmt/format.h>

#include <string>

namespace fedmrn::train {
namespace {

std::string FloatList(std::span<const float> values) {
  // With '#', 1 is written as 1.0; a list of 1 would be of integers.
  return fmt::format("[{:#}]", fmt::join(values, ", "));
}

}  // namespace

std::string NormaliseSource(std::span<const float> mean,
                            std::span<const float> std) {
  return fmt::format(
      "def normalise(self, pixels: Tensor) -> Tensor:\n"
      "  mean = torch.tensor({}, device=pixels.device).view([1, -1, 1, 1])\n"
      "  std = torch.tensor({}, device=pixels.device).view([1, -1, 1, 1])\n"
      "  return (pixels / 255.0 - mean) / std\n",
      FloatList(mean), FloatList(std));
}

std::string BatchNormSource() {
  // Evaluation takes the running statistics, training the batch's.
  return "torch.batch_norm(x, self.bn{0}.weight, self.bn{0}.bias, "
         "self.bn{0}.running_mean, self.bn{0}.running_var, "
         "self.training, 0.1, 1e-5, True)";
}

std::string GroupNormSource(int groups) {
  return "torch.group_norm(x, " + std::to_string(groups) +
         ", self.gn{0}.weight, self.gn{0}.bias, 1e-5, True)";
}

std::string CnnSource(const std::vector<bool>& pool_after,
                      const std::string& norm, std::span<const float> mean,
                      std::span<const float> std) {
  std::string source = "def forward(self, x: Tensor) -> Tensor:\n";
  for (size_t i = 1; i <= pool_after.size(); ++i) {
    source += fmt::format(
        "  x = torch.conv2d(x, self.conv{}.weight, None, [1, 1], [1, 1])\n", i);
    if (!norm.empty()) {
      source += "  x = " + fmt::format(fmt::runtime(norm), i) + "\n";
    }
    source += "  x = torch.relu(x)\n";
    if (pool_after[i - 1]) source += "  x = torch.max_pool2d(x, [2, 2])\n";
  }
  source += "  return torch.matmul(torch.flatten(x, 1), self.fc.weight.t())\n" +
            NormaliseSource(mean, std);
  return source;
}

}  // namespace fedmrn::train
