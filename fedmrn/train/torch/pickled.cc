#include "fedmrn/train/torch/pickled.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fedmrn::train {
namespace {

using c10::IValue;

constexpr std::pair<std::string_view, at::ScalarType> kStorages[] = {
    {"torch FloatStorage", at::kFloat},
    {"torch DoubleStorage", at::kDouble},
    {"torch HalfStorage", at::kHalf},
    {"torch BFloat16Storage", at::kBFloat16},
    {"torch LongStorage", at::kLong},
    {"torch IntStorage", at::kInt},
    {"torch ShortStorage", at::kShort},
    {"torch CharStorage", at::kChar},
    {"torch ByteStorage", at::kByte},
    {"torch BoolStorage", at::kBool}};

// To destroy nested values, LibTorch calls itself for each.
constexpr unsigned kDeepest = 100;

// The machine that Python's pickletools describes: values on a stack, and a
// memo for those that occur again.
class Reader {
 public:
  explicit Reader(caffe2::serialize::PyTorchStreamReader& file) : file_(file) {
    auto [data, size] = file.getRecord("data.pkl");
    bytes_.assign(static_cast<const char*>(data.get()), size);
  }

  IValue Run() {
    for (;;) {
      switch (const uint8_t opcode = Number<uint8_t>()) {
        case 0x80:  // PROTO
          Number<uint8_t>();
          break;
        case '.':  // STOP
          return Pop();
        case '(':  // MARK
          marks_.push_back(stack_.size());
          break;
        case 'N':  // NONE
        case ']':  // EMPTY_LIST
          stack_.emplace_back();
          break;
        case 0x88:  // NEWTRUE
        case 0x89:  // NEWFALSE
          stack_.emplace_back(opcode == 0x88);
          break;
        case 'K':  // BININT1
          stack_.emplace_back(int64_t{Number<uint8_t>()});
          break;
        case 'M':  // BININT2
          stack_.emplace_back(int64_t{Number<uint16_t>()});
          break;
        case 'J':  // BININT
          stack_.emplace_back(int64_t{Number<int32_t>()});
          break;
        case 0x8a: {  // LONG1
          const std::string_view digits = Take(Number<uint8_t>());
          if (digits.size() > sizeof(int64_t)) Damaged();
          const bool negative = !digits.empty() && (digits.back() & 0x80) != 0;
          int64_t number = negative ? -1 : 0;
          std::memcpy(&number, digits.data(), digits.size());
          stack_.emplace_back(number);
          break;
        }
        case 'G':  // BINFLOAT
          Take(8);
          stack_.emplace_back();
          break;
        case 'X':  // BINUNICODE
          stack_.emplace_back(std::string(Take(Number<uint32_t>())));
          break;
        case 'c': {  // GLOBAL
          const std::string module = Line();
          stack_.emplace_back(module + " " + Line());
          break;
        }
        case 'q':  // BINPUT
          memo_[Number<uint8_t>()] = Top();
          break;
        case 'r':  // LONG_BINPUT
          memo_[Number<uint32_t>()] = Top();
          break;
        case 'h':  // BINGET
          stack_.push_back(memo_[Number<uint8_t>()]);
          break;
        case 'j':  // LONG_BINGET
          stack_.push_back(memo_[Number<uint32_t>()]);
          break;
        case ')':  // EMPTY_TUPLE
          PushTuple({});
          break;
        case 't':  // TUPLE
          PushTuple(PopToMark());
          break;
        case 0x85:  // TUPLE1
        case 0x86:  // TUPLE2
        case 0x87:  // TUPLE3
          PushTuple(PopLast(opcode - 0x84u));
          break;
        case 'a':  // APPEND, to a list
          Pop();
          break;
        case 'e':  // APPENDS
          PopToMark();
          break;
        case '}':  // EMPTY_DICT
          PushDictionary();
          break;
        case 's':  // SETITEM
          SetItems(PopLast(2));
          break;
        case 'u':  // SETITEMS
          SetItems(PopToMark());
          break;
        case 'b':  // BUILD: attributes of a dictionary
          Pop();
          break;
        case 'Q':  // BINPERSID
          stack_.emplace_back(Storage(PopTuple()));
          break;
        case 'R':  // REDUCE
          Call();
          break;
        default:
          Refuse("holds Python objects that are no tensors");
      }
    }
  }

 private:
  [[noreturn]] static void Refuse(const std::string& why) {
    throw std::runtime_error(why);
  }
  [[noreturn]] static void Damaged() { Refuse("is damaged"); }

  std::string_view Take(size_t size) {
    if (size > bytes_.size() - at_) Damaged();
    const std::string_view taken = std::string_view(bytes_).substr(at_, size);
    at_ += size;
    return taken;
  }
  template <typename T>
  T Number() {
    T number;
    std::memcpy(&number, Take(sizeof(T)).data(), sizeof(T));
    return number;
  }
  std::string Line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) Damaged();
    std::string line(Take(end - at_));
    Take(1);
    return line;
  }

  const IValue& Top() const {
    if (stack_.empty()) Damaged();
    return stack_.back();
  }
  IValue Pop() { return PopLast(1).front(); }
  std::vector<IValue> PopLast(size_t count) {
    if (count > stack_.size()) Damaged();
    std::vector<IValue> last(stack_.end() - static_cast<ptrdiff_t>(count),
                             stack_.end());
    stack_.resize(stack_.size() - count);
    return last;
  }
  std::vector<IValue> PopToMark() {
    if (marks_.empty() || marks_.back() > stack_.size()) Damaged();
    const size_t mark = marks_.back();
    marks_.pop_back();
    return PopLast(stack_.size() - mark);
  }
  std::vector<IValue> PopTuple() {
    const IValue value = Pop();
    if (!value.isTuple()) Damaged();
    return value.toTupleRef().elements().vec();
  }

  // A tuple or dictionary, kept so that no other gets its address.
  struct Container {
    IValue value;
    unsigned depth = 1;
    bool used = false;  // in another one
  };
  Container& ContainerOf(const IValue& value) {
    return containers_.try_emplace(value.internalToPointer(), Container{value})
        .first->second;
  }
  // Values become part of a container, whose depth is returned. What was used
  // is not changed any more, so that none contains itself.
  unsigned Use(const std::vector<IValue>& values) {
    unsigned depth = 1;
    for (const IValue& value : values) {
      if (!value.isTuple() && !value.isGenericDict()) continue;
      Container& part = ContainerOf(value);
      part.used = true;
      depth = std::max(depth, part.depth + 1);
    }
    if (depth > kDeepest) Refuse("has values that are nested too deep");
    return depth;
  }

  void PushTuple(std::vector<IValue> values) {
    const unsigned depth = Use(values);
    stack_.emplace_back(c10::ivalue::Tuple::create(std::move(values)));
    ContainerOf(stack_.back()).depth = depth;
  }
  void PushDictionary() {
    stack_.emplace_back(
        c10::impl::GenericDict(c10::AnyType::get(), c10::AnyType::get()));
  }
  void SetItems(const std::vector<IValue>& items) {
    if (!Top().isGenericDict() || items.size() % 2 != 0) Damaged();
    const unsigned depth = Use(items);
    Container& self = ContainerOf(Top());
    if (self.used) Refuse("has a dictionary that contains itself");
    self.depth = std::max(self.depth, depth);
    c10::impl::GenericDict dictionary = Top().toGenericDict();
    for (size_t i = 0; i < items.size(); i += 2) {
      if (items[i].isString()) {
        dictionary.insert_or_assign(items[i], items[i + 1]);
      }
    }
  }

  // ("storage", type, record, device, number of values)
  at::Tensor Storage(const std::vector<IValue>& id) {
    if (id.size() != 5 || !id[1].isString() || !id[2].isString()) Damaged();
    for (const auto& [name, type] : kStorages) {
      if (id[1].toStringRef() != name) continue;
      auto [data, size] = file_.getRecord("data/" + id[2].toStringRef());
      at::Tensor values = at::empty(
          {static_cast<int64_t>(size / c10::elementSize(type))}, type);
      if (values.numel() == 0) return values;  // it has no memory
      std::memcpy(values.data_ptr(), data.get(), values.nbytes());
      return values;
    }
    Refuse("holds a tensor of an unknown type: " + id[1].toStringRef());
  }

  // By strides of 0 a few bytes would stand for any number of values.
  static void CheckSizes(const std::vector<int64_t>& sizes, int64_t stored) {
    if (std::ranges::find(sizes, 0) != sizes.end()) return;
    int64_t values = 1;
    for (const int64_t size : sizes) {
      if (size < 0 || values > stored / size) {
        Refuse("has a tensor that is larger than what it is stored in");
      }
      values *= size;
    }
  }

  void Call() {
    const std::vector<IValue> arguments = PopTuple();
    const IValue function = Pop();
    if (!function.isString()) Damaged();
    const std::string& name = function.toStringRef();
    if (name == "collections OrderedDict" && arguments.empty()) {
      PushDictionary();
    } else if (name == "torch._utils _rebuild_tensor_v2" &&
               arguments.size() >= 4) {
      // Storage, offset, sizes, strides, ...; LibTorch checks the bounds.
      const auto numbers = [](const IValue& tuple) {
        std::vector<int64_t> result;
        for (const IValue& v : tuple.toTupleRef().elements()) {
          result.push_back(v.toInt());
        }
        return result;
      };
      const at::Tensor storage = arguments[0].toTensor();
      const std::vector<int64_t> sizes = numbers(arguments[2]);
      CheckSizes(sizes, storage.numel());
      stack_.emplace_back(storage.as_strided(sizes, numbers(arguments[3]),
                                             arguments[1].toInt()));
    } else if ((name == "torch._utils _rebuild_parameter" ||
                name == "torch.jit._pickle restore_type_tag") &&
               !arguments.empty()) {
      stack_.push_back(arguments[0]);
    } else {
      Refuse("holds a Python object, " + name +
             "; save only its tensors: torch.save(model.state_dict(), ...)");
    }
  }

  caffe2::serialize::PyTorchStreamReader& file_;
  std::string bytes_;
  size_t at_ = 0;
  std::vector<IValue> stack_;
  std::vector<size_t> marks_;
  std::map<uint32_t, IValue> memo_;
  std::map<const void*, Container> containers_;
};

}  // namespace

IValue ReadPickled(caffe2::serialize::PyTorchStreamReader& file) {
  return Reader(file).Run();
}

}  // namespace fedmrn::train
