# Every outside library of a build, found once.

include(WhiskerLibraries)
find_package(CLI11 REQUIRED)
find_path(STB_INCLUDE_DIR stb/stb_image.h DOC "stb_image.h (package libstb-dev)" REQUIRED)

if(WHISKER_TESTS)
  find_package(GTest REQUIRED)
  find_package(ZLIB REQUIRED)  # the PNG writer of the tests
  include(GoogleTest)
endif()
