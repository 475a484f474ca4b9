# Writes OUTPUT, a C++ file that holds the style sheet and the scripts of DIRECTORY as string literals, and the scripts'
# SHA-256, which the page's Content-Security-Policy names.
# Usage: cmake -DDIRECTORY=apps/study/page -DOUTPUT=x.cpp -P EmbedPage.cmake
file(READ "${DIRECTORY}/graph.css" style)
set(script "")
set(scripts step layout tensors graph frame)  # later ones use what earlier ones define
foreach(name IN LISTS scripts)
  file(READ "${DIRECTORY}/${name}.js" part)
  string(APPEND script "${part}")
endforeach()
string(SHA256 hash "${script}")
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
