// No operator is forgotten: what core/ops/ops.h declares and what a row or a definition records has
// a row in core/trace/operator_table.cpp, and each row has definitions in the files beside this
// one.
#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/trace/operator_table.h"
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::IsEmpty;
using Names = std::set<std::string>;

Names row_names() {
  Names names;
  for (const OperatorRow& row : operator_table()) names.insert(row.name);
  return names;
}

/// Those of `names` that `others` lack.
Names missing(const Names& names, const Names& others) {
  Names result;
  std::ranges::set_difference(names, others, std::inserter(result, result.end()));
  return result;
}

/// Functions with a tensor in their result.
Names declared_names() {
  const std::string header =
      read_file(WHISKER_SOURCE_DIR "/core/ops/ops.h", 1 << 20, ErrorKind::disk);
  const std::regex declaration(R"(\n(\w[\w:<>]*) (\w+)\()");
  Names names;
  for (std::sregex_iterator at(header.begin(), header.end(), declaration), end; at != end; ++at) {
    const std::string result = (*at)[1];
    if (result != "bool" && !result.ends_with("Geometry")) names.insert((*at)[2]);
  }
  return names;
}

/// The names of all operators that run while it lives, recorded or not.
class RecordedNames final : TapeObserver {
 public:
  RecordedNames() { grad_mode.observer = this; }
  ~RecordedNames() override { grad_mode.observer = nullptr; }
  const Names& names() const { return names_; }

 private:
  void on_record(const Node& node, Tensors, Tensors) override { names_.insert(node.name()); }
  void on_unrecorded(const char* name, Tensors, Tensors) override { names_.insert(name); }
  Names names_;
};

TEST(OperatorTable, HasARowForEachDeclaredOperator) {
  EXPECT_GT(declared_names().size(), 60u) << "control: the declarations were found";
  EXPECT_THAT(missing(declared_names(), row_names()), IsEmpty());
}

TEST(OperatorTable, HasARowForEachRecordedName) {
  const RecordedNames recorded;
  for (const OperatorRow& row : operator_table()) {
    Arguments arguments(1);
    row.call(arguments);  // makes the operands
    for (const auto& operand : arguments.operands()) operand.tensor.set_requires_grad();
    arguments.restart();
    const Tensor y = row.call(arguments);
    if (y.requires_grad()) backward(y, {.gradient = ones(y.shape(), y.options())});
  }
  for (const OpCase& row : all_rows()) row.op(inputs_of(row));
  EXPECT_GT(recorded.names().size(), 40u) << "control: names were recorded";
  EXPECT_THAT(missing(recorded.names(), row_names()), IsEmpty());
}

TEST(OperatorTable, EveryRowHasADefinition) {
  Names defined;
  for (const OpCase& definition : all_rows()) {
    // The longest: "max_pool2d_2x2" defines max_pool2d, not max.
    std::string longest;
    for (const std::string& name : row_names()) {
      const bool starts = (definition.name + "_").starts_with(name + "_");
      if (starts && name.size() > longest.size()) longest = name;
    }
    EXPECT_NE(longest, "") << definition.name << " begins with no operator's name";
    defined.insert(longest);
  }
  EXPECT_THAT(missing(row_names(), defined), IsEmpty());
}

}  // namespace
}  // namespace whisker::test
