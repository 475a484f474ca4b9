# Writes OUTPUT, a C++ file that holds the style sheet and the script of DIRECTORY as string literals, and the script's
# SHA-256, which the page's Content-Security-Policy names.
# Usage: cmake -DDIRECTORY=apps/study/page -DOUTPUT=x.cpp -P EmbedPage.cmake
file(READ "${DIRECTORY}/graph.css" style)
file(READ "${DIRECTORY}/graph.js" script)
file(SHA256 "${DIRECTORY}/graph.js" hash)
string(REGEX REPLACE "(..)" "0x\\1, " bytes "${hash}")
file(WRITE "${OUTPUT}.new" "// Made from apps/study/page by cmake/EmbedPage.cmake.
#include \"apps/study/graph_page.h\"

namespace whisker {

std::string_view graph_page_style() { return R\"page(${style})page\"; }
std::string_view graph_page_script() { return R\"page(${script})page\"; }

std::span<const uint8_t> graph_page_script_hash() {
  static constexpr uint8_t bytes[] = {${bytes}};
  return bytes;
}

}  // namespace whisker
")
file(COPY_FILE "${OUTPUT}.new" "${OUTPUT}" ONLY_IF_DIFFERENT)
file(REMOVE "${OUTPUT}.new")
