#include "core/io/torch_names.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace whisker {
namespace {

constexpr StorageType storage_types[] = {
    {"DoubleStorage", DType::f64, 8},
    {"FloatStorage", DType::f32, 4},
    {"HalfStorage", DType::f16, 2},
    {"BFloat16Storage", DType::bf16, 2},
    {"LongStorage", DType::i64, 8},
    {"IntStorage", DType::i32, 4},
    {"ByteStorage", DType::u8, 1},
    {"UntypedStorage", DType::u8, 1},
    {"BoolStorage", DType::boolean, 1},
    {"ShortStorage", std::nullopt, 2},
    {"CharStorage", std::nullopt, 1},
    {"ComplexFloatStorage", std::nullopt, 8},
    {"ComplexDoubleStorage", std::nullopt, 16},
    {"QInt8Storage", std::nullopt, 1},
    {"QUInt8Storage", std::nullopt, 1},
    {"QInt32Storage", std::nullopt, 4},
    {"QUInt4x2Storage", std::nullopt, 1},
    {"QUInt2x4Storage", std::nullopt, 1},
};

constexpr std::pair<std::string_view, Maker> makers[] = {
    {"torch._utils._rebuild_tensor_v2", Maker::tensor},
    {"torch._utils._rebuild_tensor", Maker::tensor},
    {"torch._utils._rebuild_tensor_v3", Maker::tensor_v3},
    {"torch._utils._rebuild_parameter", Maker::parameter},
    {"torch._utils._rebuild_parameter_with_state", Maker::parameter},
    {"torch._tensor._rebuild_from_type_v2", Maker::subclass},
    {"collections.OrderedDict", Maker::dict},
    {"torch.Size", Maker::size},
    {"builtins.set", Maker::set},
    {"__builtin__.set", Maker::set},
    {"builtins.frozenset", Maker::set},
    {"__builtin__.frozenset", Maker::set},
    {"_codecs.encode", Maker::bytes},
    {"__builtin__.bytes", Maker::bytes},
    {"builtins.bytes", Maker::bytes},
};

constexpr std::string_view to_dense = "Save it dense: tensor.to_dense().";
constexpr std::string_view to_cpu = "Save a copy in the CPU's memory: tensor.cpu().";
constexpr OtherTensor other_tensors[] = {
    {"torch._utils._rebuild_sparse_tensor", "a sparse tensor", to_dense},
    {"torch._utils._rebuild_sparse_csr_tensor", "a sparse tensor", to_dense},
    {"torch._utils._rebuild_qtensor", "a quantised tensor",
     "Save the values that it stands for: tensor.dequantize()."},
    {"torch._utils._rebuild_meta_tensor_no_storage", "a tensor on the device meta, without values",
     "Load the model's weights on a device such as 'cpu' and save them again."},
    {"torch._utils._rebuild_nested_tensor", "a nested tensor",
     "Save its parts, each under a name: tensor.unbind()."},
    {"torch._utils._rebuild_device_tensor_from_numpy", "a tensor of another device", to_cpu},
    {"torch._utils._rebuild_device_tensor_from_cpu_tensor", "a tensor of another device", to_cpu},
    {"torch._utils._rebuild_xla_tensor", "a tensor of another device", to_cpu},
};

// Packages of Python's library whose functions start programs, run code, or change files.
constexpr std::string_view code_packages[] = {
    "os",        "posix",   "nt",     "sys",        "subprocess", "_posixsubprocess",
    "popen2",    "pty",     "shutil", "socket",     "runpy",      "codeop",
    "importlib", "imp",     "ctypes", "_ctypes",    "marshal",    "pickle",
    "_pickle",   "cPickle", "urllib", "webbrowser", "ftplib",     "smtplib",
    "requests",  "asyncio", "pydoc",  "timeit",     "tempfile",   "bdb",
    "pdb",       "pip",     "io",     "_io"};

// Names of Python's builtins that are plain data.
constexpr std::string_view plain_builtins[] = {
    "set",    "frozenset", "complex", "slice",   "range",    "xrange",        "bytearray", "bytes",
    "list",   "dict",      "tuple",   "int",     "long",     "float",         "bool",      "str",
    "object", "unicode",   "type",    "getattr", "Ellipsis", "NotImplemented"};

}  // namespace

const StorageType* find_storage_type(std::string_view name) {
  for (const std::string_view module : {"torch.cuda.", "torch.storage.", "torch."}) {
    if (!name.starts_with(module)) continue;
    name.remove_prefix(module.size());
    break;
  }
  const auto* found = std::ranges::find(storage_types, name, &StorageType::name);
  return found == std::end(storage_types) ? nullptr : found;
}

Maker maker_of(std::string_view name) {
  const auto* found = std::ranges::find(makers, name, &std::pair<std::string_view, Maker>::first);
  if (found != std::end(makers)) return found->second;
  return find_other_tensor(name) ? Maker::other_tensor : Maker::object;
}

const OtherTensor* find_other_tensor(std::string_view maker) {
  const auto* found = std::ranges::find(other_tensors, maker, &OtherTensor::maker);
  return found == std::end(other_tensors) ? nullptr : found;
}

bool runs_code(std::string_view name) {
  const size_t dot = name.find('.');
  const std::string_view package = name.substr(0, dot);
  if (package == "builtins" || package == "__builtin__") {
    const std::string_view own = name.substr(dot + 1);
    const bool exception = own.ends_with("Error") || own.ends_with("Exception");
    return !exception && std::ranges::count(plain_builtins, own) == 0;
  }
  return std::ranges::count(code_packages, package) > 0;
}

}  // namespace whisker
