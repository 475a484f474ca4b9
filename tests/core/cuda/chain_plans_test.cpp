// Which links of a chain are joined: what the plan table says, and what timing may cost.
#include "chain_case.h"

#include <algorithm>

namespace whisker::test {
namespace {

using CudaChainPlans = CudaChains;

/// Where the row of each link begins in a plan table.
std::vector<size_t> link_rows(const std::string& table) {
  std::vector<size_t> rows;
  for (size_t row = table.find("\"chain "); row != std::string::npos;
       row = table.find("\"chain ", row + 1)) {
    rows.push_back(row);
  }
  return rows;
}

/// `table` with `choice` in place of what timing found for its links.
std::string with_links(std::string table, const std::string& choice) {
  std::vector<size_t> rows = link_rows(table);
  std::ranges::reverse(rows);
  for (const size_t row : rows) {
    const size_t begin = table.find("\":\"", row) + 3;
    table.replace(begin, table.find('"', begin) - begin, choice);
  }
  return table;
}

// Whatever timing found: an imported table's word counts, either way.
TEST_F(CudaChainPlans, FollowImportedChoices) {
  const ChainCase& c = chain_cases()[6];
  use(ConvolutionChaining::faster, 600);
  for (int run = 0; run < 3; ++run) run_chain(c, gpu);
  const std::string timed = backend_of(gpu).export_plans();
  const Results expected = run_chain(c, reference_device);
  for (const bool joined : {true, false}) {
    use(ConvolutionChaining::faster, 0);
    EXPECT_FALSE(is_joint(c)) << "nothing is joined untested";
    const std::string table = with_links(timed, joined ? "joined" : "separate");
    backend_of(gpu).import_plans(table);
    EXPECT_EQ(is_joint(c), joined) << table;
    expect_close(joined ? "joined" : "separate", c, run_chain(c, gpu), expected);
    EXPECT_EQ(backend_of(gpu).export_plans(), table);
  }
}

// A link is a choice of its own where its statistics are given.
TEST_F(CudaChainPlans, TellLinksWithGivenSumsApart) {
  use(ConvolutionChaining::faster, 600);
  const ChainCase& c = chain_cases()[1];
  for (int run = 0; run < 2; ++run) {
    is_joint(c);
    is_joint(c, zeros({2, c.x[3]}, {.device = gpu}));
  }
  const std::string table = backend_of(gpu).export_plans();
  const std::vector<size_t> rows = link_rows(table);
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
TEST_F(CudaChainPlans, StayApartWhereSearchingCostsMoreThanItSaves) {
  CudaOptions options = exact_options();
  options.search_seconds = 600;
  options.search_uses = 1;
  forget_choices(options);
  const ChainCase& c = chain_cases()[1];
  for (int run = 0; run < 3; ++run) run_chain(c, gpu);
  EXPECT_FALSE(is_joint(c));
  const std::string table = backend_of(gpu).export_plans();
  EXPECT_TRUE(link_rows(table).empty()) << "of no use to a longer run: " << table;
}

}  // namespace
}  // namespace whisker::test
