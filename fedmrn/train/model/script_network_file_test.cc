// Users' TorchScript networks as files: what is read, which are refused and
// why, what a trained one is written as, and tensors that torch.save wrote.

// First: clang 14 in C++20 cannot read LibTorch's headers in another order.
// clang-format off
#include <ATen/core/ivalue.h>
#include <ATen/ATen.h>
// clang-format on
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <map>
#include <sstream>

#include "fedmrn/base/files.h"
#include "fedmrn/train/model/script_network_test_util.h"
#include "fedmrn/train/model/torchscript.h"
#include "fedmrn/train/torch/torch_module.h"

namespace fedmrn::train {
namespace {

using torch::jit::Module;

TEST(TorchScriptModel, LayoutAndInitialValuesAreTheFiles) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  const Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
  std::vector<std::string> names;
  for (const TensorLayout& tensor : made.model.layout.tensors) {
    names.push_back(tensor.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "conv.weight", "bn.weight", "bn.bias", "fc.weight",
                       "fc.bias", "bn.running_mean", "bn.running_var"}));
  EXPECT_EQ(CodedNames(made.model),
            (std::vector<std::string>{"conv.weight", "fc.weight"}));
  EXPECT_EQ(made.model.trainable_plain, 8 + 8 + kClasses);
  EXPECT_STREQ(made.model.metric, "accuracy");
  std::map<std::string, at::Tensor> tensors;
  const Module module = Load(path);
  for (const auto& t : module.named_parameters()) tensors[t.name] = t.value;
  for (const auto& t : module.named_buffers()) tensors[t.name] = t.value;
  EXPECT_EQ(made.coded, Joined({tensors["conv.weight"], tensors["fc.weight"]}));
  EXPECT_EQ(made.plain, Joined({tensors["bn.weight"], tensors["bn.bias"],
                                tensors["fc.bias"], tensors["bn.running_mean"],
                                tensors["bn.running_var"]}));
}

TEST(TorchScriptModel, PatternsChooseWhatIsMasked) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  const auto coded = [&](const char* patterns) {
    ModelSettings settings = Settings(path);
    settings.coded = patterns;
    return CodedNames(
        Made(MakeData(Input::kImages, Target::kClass), settings).model);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(coded("fc.*"), (Names{"fc.weight", "fc.bias"}));
  EXPECT_EQ(coded("!conv.*"), (Names{"fc.weight"}));
  EXPECT_EQ(coded("*.weight, !bn.*"), (Names{"conv.weight", "fc.weight"}));
  for (const auto& [patterns, why] : std::map<std::string, std::string>{
           {"fc.weight,nope*", "'nope*'"},
           {"!*", "no tensor would be compressed"}}) {
    ModelSettings settings = Settings(path);
    settings.coded = patterns;
    const Result<Model> model = MakeTorchScriptModel(
        settings, MakeData(Input::kImages, Target::kClass));
    ASSERT_FALSE(model) << patterns;
    EXPECT_NE(model.error().message.find(why), std::string::npos)
        << model.error().message;
  }
}

TEST(TorchScriptModel, TrainedFileEvaluatesAsTheNetwork) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  Made made(MakeData(Input::kImages, Target::kClass), Settings(path));
  made.Gradient(kExamples);
  for (float& v : made.coded) v -= 0.25f;
  const auto save = [&] {
    return *made.model.torchscript(made.coded, made.plain);
  };
  const std::string saved = save();
  EXPECT_EQ(saved, save());
  std::istringstream stream(saved);
  Module module = torch::jit::load(stream);
  EXPECT_FALSE(module.is_training());
  const Batch batch = MakeBatch(made.data, kExamples);
  EXPECT_NEAR(
      made.network->Evaluate(batch, made.coded, made.plain).loss,
      at::cross_entropy_loss(module.forward({NchwInput(batch)}).toTensor(),
                             Labels(batch, {6}), {}, at::Reduction::Sum)
          .item<double>(),
      1e-4);
  for (const at::Tensor& p : module.parameters()) {
    EXPECT_TRUE(p.requires_grad());
  }
}

std::string Refusal(const std::string& path, const Data& data) {
  const Result<Model> model = MakeTorchScriptModel(Settings(path), data);
  if (model) return "none";
  const std::string& message = model.error().message;
  EXPECT_TRUE(message.starts_with(path + ": ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  return message.substr(path.size() + 2);
}

TEST(TorchScriptModel, RefusesFilesThatAreNoModule) {
  const Data images = MakeData(Input::kImages, Target::kClass);
  EXPECT_EQ(Refusal("/nowhere/my.pt", images), "No such file or directory");
  EXPECT_EQ(Refusal(testing::TempDir(), images), "Is a directory");
  for (const std::string& contents :
       {std::string(), std::string("hello"), std::string("\x80\x02}q.")}) {
    EXPECT_EQ(Refusal(WriteFile(contents), images),
              "is no TorchScript file; save the model with "
              "torch.jit.script(model).save(\"model.pt\")");
  }
  c10::Dict<std::string, at::Tensor> state;
  state.insert("weight", at::ones({2, 2}));
  const std::vector<char> pickled = torch::jit::pickle_save(state);
  EXPECT_EQ(Refusal(WriteFile({pickled.begin(), pickled.end()}), images),
            "holds tensors or a Python object (torch.save), not a module; save "
            "the model with torch.jit.script(model).save(\"model.pt\")");
  // Cut off, or damaged within.
  const Bytes bytes = ReadFile(MakeFile(kConvTensors, ConvSource())).value();
  const std::string whole(AsText(bytes));
  for (const size_t size : {whole.size() / 2, whole.size() - 10}) {
    EXPECT_NE(Refusal(WriteFile(whole.substr(0, size)), images), "none");
  }
  // Bytes were changed in it; LibTorch 1.13 does not notice in time.
  EXPECT_EQ(Refusal(FEDMRN_TESTDATA "/torch/crash.pt", images),
            "LibTorch crashes on it (Segmentation fault): it is damaged, or "
            "made to do that");
}

TEST(TorchScriptModel, RefusesModulesThatCannotBeTrained) {
  const Data images = MakeData(Input::kImages, Target::kClass);
  const auto refusal =
      [&](const std::string& source,
          const std::vector<Tensor>& tensors = {{"weight", {2, 3}}}) {
        return Refusal(MakeFile(tensors, source), images);
      };
  EXPECT_EQ(refusal("def apply(self, x):\n  return x\n"),
            "the module has no method forward");
  EXPECT_EQ(refusal("def forward(self, x, y):\n  return x + y\n"),
            "forward must take one tensor, a batch of inputs; it takes 2");
  EXPECT_EQ(refusal("def forward(self, x):\n  return x\n", {}),
            "the module has no trainable tensor (a parameter of type float32 "
            "that requires a gradient)");
  for (const char* call :
       {"torch.rand_like(x)", "torch.randn([2])", "x.normal_()",
        "torch.multinomial(x, 1)", "torch.bernoulli(x)",
        "torch.rrelu(x, 0.1, 0.3, self.training)"}) {
    const std::string why =
        refusal(std::string("def forward(self, x):\n  if x.dim() > 9:\n"
                            "    x = x + ") +
                call + "\n  return x\n");
    EXPECT_NE(why.find("whose result would differ from run to run"),
              std::string::npos)
        << why;
  }
  EXPECT_EQ(refusal("def forward(self, x):\n  return x.mean([2, 3])\n"),
            "forward gives a tensor of shape [2, 2] of type Float, but made-up "
            "needs [2, 3] of type Float; an example of made-up is images of 4 "
            "x 6 x 2 (height, width, channels)");
  EXPECT_EQ(refusal("def forward(self, x):\n  return {'a': x}\n").substr(0, 18),
            "forward gives Gene");
  // Fails when it computes, and a loss that depends on no parameter.
  EXPECT_NE(refusal("def forward(self, x):\n"
                    "  return torch.matmul(x, self.weight.t())\n")
                .find("mat"),
            std::string::npos);
  EXPECT_NE(refusal("def forward(self, x):\n  return x.mean([2, 3]).repeat(1, "
                    "2)[:, :3]\n"),
            "none");

  Module half("__torch__.Half");
  half.register_attribute("training", c10::BoolType::get(), true);
  half.register_parameter(
      "weight", at::ones({2, 2}, at::kDouble).set_requires_grad(true), false);
  half.define("def forward(self, x):\n  return x\n");
  std::ostringstream file;
  half.save(file);
  EXPECT_EQ(Refusal(WriteFile(file.str()), images),
            "tensor weight is of type Double; convert the model with .float() "
            "before saving it");
}

TEST(TorchScriptModel, RefusesLossesThatDoNotSuit) {
  const std::string path = MakeFile(kConvTensors, ConvSource());
  for (const LossKind loss : {LossKind::kMse, LossKind::kBackCe}) {
    ModelSettings settings = Settings(path);
    settings.loss = loss;
    const Result<Model> model = MakeTorchScriptModel(
        settings, MakeData(Input::kImages, Target::kClass));
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message.find(NameOf(loss, kLosses)),
              std::string::npos);
  }
}

// What torch.save writes of model.state_dict(): an OrderedDict with attributes.
std::string StateDictPickle() {
  using namespace std::string_literals;
  const auto text = [](const std::string& s) {
    return "X"s + static_cast<char>(s.size()) + "\0\0\0"s + s;
  };
  return "\x80\x02"s + "ccollections\nOrderedDict\nq\0)Rq\1("s + text("a.w") +
         "ctorch._utils\n_rebuild_tensor_v2\n(("s + text("storage") +
         "ctorch\nFloatStorage\n"s + text("0") + text("cpu") +
         "K\6tQK\0(K\2K\3t(K\3K\1t\x89h\0)RtR"s + text("epochs") + "K\3u}"s +
         text("_metadata") + "}sb."s;
}

Result<std::vector<NamedTensor>> ReadPickle(const std::string& pickle) {
  std::string file;
  {
    caffe2::serialize::PyTorchStreamWriter writer(
        [&](const void* data, size_t size) {
          file.append(static_cast<const char*>(data), size);
          return size;
        });
    const float values[] = {1, 2, 3, 4, 5, 6};
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeRecord("data/0", values, sizeof(values));
    writer.writeEndOfFile();
  }
  return (*LoadTorchModule())->read_tensors("my.pth", file);
}

TEST(ReadTensors, StateDict) {
  const Result<std::vector<NamedTensor>> tensors =
      ReadPickle(StateDictPickle());
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 1u);
  EXPECT_EQ(tensors->front().name, "a.w");
  EXPECT_EQ(tensors->front().shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(tensors->front().values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(ReadTensors, DamagedOnesAreErrors) {
  using namespace std::string_literals;
  const std::string whole = StateDictPickle();
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto tensors = ReadPickle(whole.substr(0, size));
    ASSERT_FALSE(tensors) << size;
    EXPECT_TRUE(tensors.error().message.starts_with("my.pth: "));
  }
  // Whatever one byte becomes, it is read or refused.
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    for (const char byte : {'.', 'u', '(', '0', '\xff'}) {
      damaged[at] = byte;
      (void)ReadPickle(damaged);
    }
  }
  // A dictionary in itself, values in values without end, many values in few
  // bytes: a tensor by strides of 0, a dictionary of two dictionaries of two...
  const auto refused = [](const std::string& pickle) {
    const auto tensors = ReadPickle("\x80\x02"s + pickle + "."s);
    return tensors ? "read" : tensors.error().message;
  };
  EXPECT_EQ(refused("}q\0X\0\0\0\0h\0s"s),
            "my.pth: has a dictionary that contains itself");
  EXPECT_EQ(refused("}q\0}X\1\0\0\0ah\0sq\1h\0X\1\0\0\0bh\1s"s),
            "my.pth: has a dictionary that contains itself");
  EXPECT_EQ(refused("N"s + std::string(1'000'000, '\x85')),
            "my.pth: has values that are nested too deep");
  std::string many = whole;
  many.replace(many.find("(K\2K\3t(K\3K\1t"s), 12,
               "(J\xff\xff\xff\x0fK\3t(K\0K\0t"s);
  EXPECT_EQ(refused(many.substr(2, many.size() - 3)),
            "my.pth: has a tensor that is larger than what it is stored in");
  std::string doubled = "}q\0"s;
  for (char i = 1; i < 60; ++i) {
    const std::string before = "h"s + static_cast<char>(i - 1);
    doubled += "}(X\1\0\0\0a"s + before + "X\1\0\0\0b"s + before + "uq"s + i;
  }
  EXPECT_EQ(refused(doubled), "my.pth: names the same values too often");
  std::string foreign = whole;
  foreign.replace(foreign.find("_rebuild_tensor_v2"), 18, "_rebuild_anything_");
  EXPECT_EQ(ReadPickle(foreign).error().message,
            "my.pth: holds a Python object, torch._utils _rebuild_anything_; "
            "save only its tensors: torch.save(model.state_dict(), ...)");
}

}  // namespace
}  // namespace fedmrn::train
