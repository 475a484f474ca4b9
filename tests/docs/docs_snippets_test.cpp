// Every ```cpp block of the documentation is a quotation: of the file named after "cpp" (from the
// source root), else of docs/snippets/<document>.cpp, whose tests run it. Indentation may differ,
// and a line "..." stands for any lines left out. Other languages are not looked at, nor programs
// named without a folder, which tests/install/install_test.sh takes from the document. The files
// and folders that docs/internals names exist.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

struct Quotation {
  fs::path source;  // from the source root
  size_t line = 0;  // of the opening fence, from 1
  Lines lines;
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

Lines read_lines(std::istream&& stream) {
  Lines lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(trimmed(line));
  return lines;
}

std::vector<Quotation> quotations(const Lines& document, const std::string& stem) {
  std::vector<Quotation> found;
  bool inside = false, wanted = false;
  for (size_t i = 0; i < document.size(); ++i) {
    const std::string& line = document[i];
    if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      if (wanted) found.back().lines.push_back(line);
    } else if (line.starts_with("```")) {
      inside = true;
      const std::string source = trimmed(line.substr(std::min(line.size(), size_t{6})));
      const bool program = !source.empty() && source.find('/') == std::string::npos;
      wanted = line == "```cpp" || (line.starts_with("```cpp ") && !program);
      if (wanted)
        found.push_back({source.empty() ? "docs/snippets/" + stem + ".cpp" : source, i + 1, {}});
    }
  }
  return found;
}

// True when `lines` stand in `source` one after the other.
bool stands_in(const Lines& lines, const Lines& source) {
  for (size_t start = 0; start < source.size(); ++start) {
    size_t at = start;
    bool skipping = false, matches = true;
    for (const std::string& line : lines) {
      if (line == "...") {
        skipping = true;
        continue;
      }
      while (skipping && at < source.size() && source[at] != line) ++at;
      skipping = false;
      matches = at < source.size() && source[at] == line;
      if (!matches) break;
      ++at;
    }
    if (matches) return !lines.empty();
  }
  return false;
}

const fs::path root = WHISKER_SOURCE_DIR;

TEST(DocsSnippets, EveryBlockStandsInItsSource) {
  std::vector<fs::path> documents{root / "README.md"};
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    documents.push_back(entry.path());
  }
  int blocks = 0;
  for (const fs::path& document : documents) {
    if (document.extension() != ".md" || !fs::exists(document)) continue;
    for (const Quotation& quotation :
         quotations(read_lines(std::ifstream(document)), document.stem().string())) {
      ++blocks;
      EXPECT_TRUE(stands_in(quotation.lines, read_lines(std::ifstream(root / quotation.source))))
          << document.filename().string() << ":" << quotation.line << ": this block is not in "
          << quotation.source.string() << "; make one of them follow the other";
    }
  }
  EXPECT_GE(blocks, 20);
}

/// What stands in backticks and has a folder: "memory/allocator.h", "core/cpu/layout/".
std::vector<std::string> paths_in(const std::string& text) {
  static const std::regex path(R"(`([a-z]\w*/[\w/-]*(\.(h|cuh|cu|cpp|py))?)`)");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), path), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

TEST(DocsSnippets, InternalsNameFilesThatExist) {
  const std::set<std::string> examples = {"layers/my_layer.h", "tests/A/B/x_test.cpp"};
  int paths = 0;
  for (const auto& entry : fs::directory_iterator(root / "docs/internals")) {
    if (entry.path().extension() != ".md") continue;
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    for (const std::string& path : paths_in(text)) {
      if (examples.contains(path)) continue;
      ++paths;
      EXPECT_TRUE(fs::exists(root / path) || fs::exists(root / "core/cuda" / path))
          << entry.path().filename().string() << " names " << path << ", which is not there";
    }
  }
  EXPECT_GE(paths, 100);
}

// Controls: what the check must find and must refuse.
const Lines source{"int f() {", "return 1;", "}", "", "int g() {", "return 2;", "}"};

TEST(DocsSnippets, MatcherFindsWholeLinesInOrder) {
  EXPECT_TRUE(stands_in({"int g() {", "return 2;"}, source));
  EXPECT_TRUE(stands_in({"int f() {", "...", "return 2;", "}"}, source));
  EXPECT_FALSE(stands_in({"int f() {", "return 2;"}, source));
  EXPECT_FALSE(stands_in({"return"}, source));
  EXPECT_FALSE(stands_in({"return 2;", "...", "return 1;"}, source));
  EXPECT_FALSE(stands_in({"}", "int h();"}, source));
  EXPECT_FALSE(stands_in({}, source));
}

TEST(DocsSnippets, PathsAreParsed) {
  EXPECT_THAT(paths_in("a `core/a.h`, `b.h`, `core/cpu/` and `x/y z`, `pad*/q.cu`"),
              testing::ElementsAre("core/a.h", "core/cpu/"));
}

TEST(DocsSnippets, FencesAreParsed) {
  const Lines document = read_lines(
      std::istringstream("a\n```cpp\n  x;\n```\n```\n```cpp core/a.h\ny;\n```\n```text\nz\n"
                         "```\n```cpp core/b.h\n\nw;\n```\n```cpp program.cpp\nv;\n```\n"));
  const auto found = quotations(document, "page");
  ASSERT_EQ(found.size(), 2u);  // the third fence closes an unnamed block
  EXPECT_EQ(found[0].source, "docs/snippets/page.cpp");
  EXPECT_THAT(found[0].lines, testing::ElementsAre("x;"));
  EXPECT_EQ(found[1].source, "core/b.h");
  EXPECT_EQ(found[1].line, 12u);
  EXPECT_THAT(found[1].lines, testing::ElementsAre("", "w;"));
}

}  // namespace
