// The archive that torch.jit.load reads, written without LibTorch: loading that
// takes longer than a short run. It is a zip file with
//   archive/data.pkl      the tree of modules, pickled, whose tensors name
//   archive/data/N        their values, little-endian
//   archive/code/...py    a class for each module of the tree
//   archive/constants.pkl an empty tuple
//   archive/version       of the operators that the code calls
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedmrn/train/model/torchscript.h"

static_assert(std::endian::native == std::endian::little);

namespace fedmrn::train {
namespace {

// Division has meant since this version what it means in the sources.
constexpr char kOperatorVersion[] = "4\n";

// A module: its tensors, as indices into the list of all, and its children,
// both in the order in which they came.
struct Node {
  std::string class_name;
  std::vector<std::pair<std::string, size_t>> tensors;
  std::vector<std::pair<std::string, std::unique_ptr<Node>>> children;

  // `nodes` counts all of the tree.
  Node& Child(const std::string& name, size_t& nodes) {
    for (auto& [other, child] : children) {
      if (other == name) return *child;
    }
    children.emplace_back(name, std::make_unique<Node>());
    // Numbered, since two modules may have children of one name.
    children.back().second->class_name =
        fmt::format("Module{}_{}", nodes, name);
    ++nodes;
    return *children.back().second;
  }
};

Node TreeOf(std::span<const TorchScriptTensor> tensors) {
  Node root;
  root.class_name = "Module0";
  size_t nodes = 1;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Node* node = &root;
    std::string_view name = tensors[i].name;
    for (size_t dot; (dot = name.find('.')) != name.npos;) {
      node = &node->Child(std::string(name.substr(0, dot)), nodes);
      name.remove_prefix(dot + 1);
    }
    node->tensors.emplace_back(name, i);
  }
  return root;
}

// Children of lists have numbers for names, which are none in Python.
void DeclareMember(const std::string& name, const std::string& type,
                   std::string& code) {
  code += fmt::format("  __annotations__[\"{}\"] = {}\n", name, type);
}

// A class for `node` and for all below it. `methods`: those of this class, each
// line indented as in a class.
void DeclareClasses(const Node& node,
                    std::span<const TorchScriptTensor> tensors,
                    const std::string& methods, std::string& code) {
  std::string parameters, buffers;
  for (const auto& [name, index] : node.tensors) {
    (tensors[index].trainable ? parameters : buffers) += '"' + name + "\", ";
  }
  code += fmt::format(
      "class {}(Module):\n"
      "  __parameters__ = [{}]\n"
      "  __buffers__ = [{}]\n"
      "  __annotations__ = []\n",
      node.class_name, parameters, buffers);
  DeclareMember("training", "bool", code);
  for (const auto& [name, index] : node.tensors) {
    DeclareMember(name, "Tensor", code);
  }
  for (const auto& [name, child] : node.children) {
    DeclareMember(name, "__torch__.fedmrn." + child->class_name, code);
  }
  code += methods;
  for (const auto& [name, child] : node.children) {
    DeclareClasses(*child, tensors, "", code);
  }
}

std::string Indented(const std::string& source) {
  std::string indented;
  for (size_t begin = 0; begin < source.size();) {
    const size_t end = std::min(source.find('\n', begin), source.size());
    indented += "  " + source.substr(begin, end - begin) + '\n';
    begin = end + 1;
  }
  return indented;
}

// Opcodes of Python's pickle protocol 2.
class Pickle {
 public:
  Pickle() { bytes_ = "\x80\x02"; }

  void Op(char op) { bytes_ += op; }
  void Global(std::string_view module, std::string_view name) {
    bytes_ += fmt::format("c{}\n{}\n", module, name);
  }
  void Text(std::string_view text) {
    bytes_ += 'X';
    Little(text.size(), 4);
    bytes_ += text;
  }
  void Bool(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void Integer(uint64_t value) {
    if (value < uint64_t{1} << 31) {
      bytes_ += 'J';
      Little(value, 4);
    } else {
      bytes_ += "\x8a\x08";
      Little(value, 8);
    }
  }
  std::string Finish() && { return std::move(bytes_ += '.'); }

 private:
  void Little(uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(value >> 8 * i & 0xff);
    }
  }

  std::string bytes_;
};

// torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, trainable, {}).
void PickleTensor(const TorchScriptTensor& tensor, size_t index, Pickle& to) {
  to.Global("torch._utils", "_rebuild_tensor_v2");
  to.Op('(');
  to.Op('(');
  to.Text("storage");
  to.Global("torch", "FloatStorage");
  to.Text(std::to_string(index));
  to.Text("cpu");
  to.Integer(tensor.values.size());
  to.Op('t');
  to.Op('Q');  // the tuple names a storage
  to.Integer(0);
  std::vector<int64_t> strides(tensor.shape.size());
  int64_t size = 1;
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = size;
    size *= tensor.shape[i];
  }
  FEDMRN_CHECK(static_cast<size_t>(size) == tensor.values.size());
  for (const std::vector<int64_t>& tuple : {tensor.shape, strides}) {
    to.Op('(');
    for (const int64_t n : tuple) to.Integer(static_cast<uint64_t>(n));
    to.Op('t');
  }
  to.Bool(tensor.trainable);
  to.Global("collections", "OrderedDict");
  to.Op(')');
  to.Op('R');
  to.Op('t');
  to.Op('R');
}

// An object of the node's class and its members, as a dictionary.
void PickleModule(const Node& node, std::span<const TorchScriptTensor> tensors,
                  Pickle& to) {
  to.Global("__torch__.fedmrn", node.class_name);
  to.Op(')');
  to.Op('\x81');  // an object without arguments
  to.Op('}');
  to.Op('(');
  to.Text("training");
  to.Bool(false);
  for (const auto& [name, index] : node.tensors) {
    to.Text(name);
    PickleTensor(tensors[index], index, to);
  }
  for (const auto& [name, child] : node.children) {
    to.Text(name);
    PickleModule(*child, tensors, to);
  }
  to.Op('u');
  to.Op('b');
}

la_ssize_t Append(archive*, void* to, const void* bytes, size_t size) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

// Members as they are, without times or owners, so that equal contents are
// equal archives.
class Zip {
 public:
  Zip() : zip_(archive_write_new(), &archive_write_free) {
    ok_ = zip_ != nullptr &&
          archive_write_set_format_zip(zip_.get()) == ARCHIVE_OK &&
          archive_write_zip_set_compression_store(zip_.get()) == ARCHIVE_OK &&
          archive_write_set_bytes_in_last_block(zip_.get(), 1) == ARCHIVE_OK &&
          archive_write_open(zip_.get(), &bytes_, nullptr, Append, nullptr) ==
              ARCHIVE_OK;
  }

  void Add(const std::string& name, std::string_view contents) {
    if (!ok_) return;
    const std::unique_ptr<archive_entry, decltype(&archive_entry_free)> entry(
        archive_entry_new(), &archive_entry_free);
    ok_ = entry != nullptr;
    if (!ok_) return;
    archive_entry_set_pathname(entry.get(), ("archive/" + name).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(),
                           static_cast<la_int64_t>(contents.size()));
    ok_ = archive_write_header(zip_.get(), entry.get()) == ARCHIVE_OK &&
          archive_write_data(zip_.get(), contents.data(), contents.size()) ==
              static_cast<la_ssize_t>(contents.size());
  }

  Result<std::string> Finish() && {
    if (!ok_ || archive_write_close(zip_.get()) != ARCHIVE_OK) {
      const char* what = zip_ ? archive_error_string(zip_.get()) : nullptr;
      return Error{ErrorCode::kFailed,
                   std::string("cannot pack the model: ") +
                       (what != nullptr ? what : "out of memory")};
    }
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  std::unique_ptr<archive, decltype(&archive_write_free)> zip_;
  bool ok_ = false;
};

}  // namespace

Result<std::string> MakeTorchScript(std::span<const TorchScriptTensor> tensors,
                                    const std::string& source) {
  const Node root = TreeOf(tensors);
  Pickle tree;
  PickleModule(root, tensors, tree);
  std::string code;
  DeclareClasses(root, tensors, Indented(source), code);

  Zip zip;
  zip.Add("data.pkl", std::move(tree).Finish());
  zip.Add("code/__torch__/fedmrn.py", code);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto bytes = std::as_bytes(tensors[i].values);
    zip.Add("data/" + std::to_string(i),
            {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  zip.Add("constants.pkl", {"\x80\x02).", 4});
  zip.Add("version", kOperatorVersion);
  return std::move(zip).Finish();
}

}  // namespace fedmrn::train
