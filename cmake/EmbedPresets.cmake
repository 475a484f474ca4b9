# Writes OUTPUT, a C++ file that holds the presets NAMES of DIRECTORY, its variants.yaml, weights_tags.yaml and
# pretrained.yaml as string literals.
# Usage: cmake -DDIRECTORY=configs/presets -DNAMES=chollet,vgg16 -DOUTPUT=x.cpp -P EmbedPresets.cmake
string(REPLACE "," ";" names "${NAMES}")
set(entries "")
foreach(name IN LISTS names)
  file(READ "${DIRECTORY}/${name}.yaml" text)
  string(APPEND entries "    {\"${name}\", R\"preset(${text})preset\"},\n")
endforeach()
file(READ "${DIRECTORY}/variants.yaml" variants)
file(READ "${DIRECTORY}/weights_tags.yaml" weights_tags)
file(READ "${DIRECTORY}/pretrained.yaml" pretrained)
file(WRITE "${OUTPUT}.new" "// Made from configs/presets by cmake/EmbedPresets.cmake.
#include \"layers/builder/presets.h\"

namespace whisker {
namespace {

constexpr Preset embedded[] = {
${entries}};

}  // namespace

std::span<const Preset> presets() { return embedded; }

std::string_view preset_variants_text() { return R\"preset(${variants})preset\"; }
std::string_view weights_tags_text() { return R\"preset(${weights_tags})preset\"; }
std::string_view pretrained_weights_text() { return R\"preset(${pretrained})preset\"; }

}  // namespace whisker
")
file(COPY_FILE "${OUTPUT}.new" "${OUTPUT}" ONLY_IF_DIFFERENT)
file(REMOVE "${OUTPUT}.new")
