// The network of char_lstm.h as a row of the models' table.
#include "fedmrn/train/data/describe.h"
#include "fedmrn/train/model/char_lstm.h"
#include "fedmrn/train/model/model.h"

namespace fedmrn::train {
namespace {

class CharLstmNetwork final : public Network {
 public:
  CharLstmNetwork(uint32_t vocabulary, uint32_t length, uint32_t classes)
      : lstm_(vocabulary, length, classes) {}

  BatchScore Gradient(const Batch& batch, const PhiloxStream& draws,
                      std::span<const float> coded, std::span<float> plain,
                      std::span<float> coded_gradient,
                      std::span<float> plain_gradient) override {
    return lstm_.Gradient(batch.tokens, batch.labels, draws, coded, plain,
                          coded_gradient, plain_gradient);
  }

  Score Evaluate(const Batch& batch, std::span<const float> coded,
                 std::span<const float> plain) override {
    return CrossEntropy(lstm_.Logits(batch.tokens, coded, plain), batch.labels);
  }

 private:
  CharLstm lstm_;
};

// nn.Embedding, nn.LSTM and nn.Linear have tensors of these names and shapes.
constexpr char kSource[] =
    "def forward(self, tokens: Tensor) -> Tensor:\n"
    "  x = torch.embedding(self.embedding.weight, tokens)\n"
    "  zero = torch.zeros([1, x.size(0), self.lstm.weight_hh_l0.size(1)],\n"
    "                     dtype=x.dtype, device=x.device)\n"
    "  outputs, h, c = torch.lstm(\n"
    "      x, [zero, zero], [self.lstm.weight_ih_l0, self.lstm.weight_hh_l0],\n"
    "      False, 1, 0.0, self.training, False, True)\n"
    "  last = torch.dropout(outputs[:, -1], 0.5, self.training)\n"
    "  return torch.matmul(last, self.fc.weight.t())\n";
static_assert(CharLstm::kDropout == 0.5f);

}  // namespace

Result<Model> MakeCharLstm(const ModelSettings& settings, const Data& data) {
  if (data.input != Input::kTokens || data.target != Target::kClass ||
      data.shape.size() != 1) {
    return Error{ErrorCode::kBadValue, settings.name + " cannot learn " +
                                           data.name +
                                           ": it names the character that "
                                           "follows a text, and an example "
                                           "here is " +
                                           DescribeInput(data)};
  }
  const uint32_t vocabulary = data.vocabulary, classes = data.classes;
  const auto length = static_cast<uint32_t>(data.shape[0]);
  const auto lstm =
      std::make_shared<const CharLstm>(vocabulary, length, classes);

  Model model;
  model.layout = lstm->layout();
  model.trainable_plain = model.layout.plain_values();
  model.initialize = [lstm](uint64_t seed, std::span<float> coded,
                            std::span<float> plain) {
    lstm->Initialize(seed, coded, plain);
  };
  model.make_network = [vocabulary, length, classes] {
    return std::make_unique<CharLstmNetwork>(vocabulary, length, classes);
  };
  model.torchscript = [lstm](std::span<const float> coded,
                             std::span<const float> plain) {
    return MakeTorchScript(
        TensorsOf(lstm->layout(), plain.size(), coded, plain), kSource);
  };
  return model;
}

}  // namespace fedmrn::train
