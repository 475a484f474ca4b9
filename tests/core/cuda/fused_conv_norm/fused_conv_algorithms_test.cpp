// Which norms are fused with their convolution: what the autotune table says, and what timing may
// cost.
#include "conv_norm_case.h"

#include <algorithm>

namespace whisker::test {
namespace {

using CudaFusedConvAlgorithms = CudaConvNorm;

/// Where the row of each choice begins in an autotune table.
std::vector<size_t> choice_rows(const std::string& table) {
  std::vector<size_t> rows;
  for (size_t row = table.find("\"chain "); row != std::string::npos;
       row = table.find("\"chain ", row + 1)) {
    rows.push_back(row);
  }
  return rows;
}

/// `table` with `choice` in place of what timing found.
std::string with_choices(std::string table, const std::string& choice) {
  std::vector<size_t> rows = choice_rows(table);
  std::ranges::reverse(rows);
  for (const size_t row : rows) {
    const size_t begin = table.find("\":\"", row) + 3;
    table.replace(begin, table.find('"', begin) - begin, choice);
  }
  return table;
}

// Whatever timing found: an imported table's word counts, either way.
TEST_F(CudaFusedConvAlgorithms, FollowImportedChoices) {
  const ConvNormCase& c = conv_norm_cases()[6];
  use(ConvNormFusion::faster, 600);
  for (int run = 0; run < 3; ++run) run_conv_norm(c, gpu);
  const std::string timed = backend_of(gpu).export_algorithms();
  const Results expected = run_conv_norm(c, reference_device);
  for (const bool fused : {true, false}) {
    use(ConvNormFusion::faster, 0);
    EXPECT_FALSE(is_fused(c)) << "nothing is fused untested";
    const std::string table = with_choices(timed, fused ? "joined" : "separate");
    backend_of(gpu).import_algorithms(table);
    EXPECT_EQ(is_fused(c), fused) << table;
    expect_close(fused ? "fused" : "separate", c, run_conv_norm(c, gpu), expected);
    EXPECT_EQ(backend_of(gpu).export_algorithms(), table);
  }
}

// There is a choice of its own where statistics are given.
TEST_F(CudaFusedConvAlgorithms, TellCasesWithGivenSumsApart) {
  use(ConvNormFusion::faster, 600);
  const ConvNormCase& c = conv_norm_cases()[1];
  for (int run = 0; run < 2; ++run) {
    is_fused(c);
    is_fused(c, zeros({2, c.x[3]}, {.device = gpu}));
  }
  const std::string table = backend_of(gpu).export_algorithms();
  const std::vector<size_t> rows = choice_rows(table);
  EXPECT_EQ(rows.size(), 2u) << table;
  EXPECT_EQ(std::ranges::count_if(rows,
                                  [&](size_t row) {
                                    const std::string name =
                                        table.substr(row, table.find("\":", row) - row);
                                    return name.ends_with(" given sums");
                                  }),
            1)
      << table;
}

// A tenth of a single use is over before the second way is tried.
TEST_F(CudaFusedConvAlgorithms, StayUnfusedWhereSearchingCostsMoreThanItSaves) {
  CudaOptions options = exact_options();
  options.search_seconds = time_for_any_search;
  options.search_uses = 1;
  forget_choices(options);
  const ConvNormCase& c = conv_norm_cases()[1];
  for (int run = 0; run < 3; ++run) run_conv_norm(c, gpu);
  EXPECT_FALSE(is_fused(c));
  const std::string table = backend_of(gpu).export_algorithms();
  EXPECT_TRUE(choice_rows(table).empty()) << "of no use to a longer run: " << table;
}

}  // namespace
}  // namespace whisker::test
