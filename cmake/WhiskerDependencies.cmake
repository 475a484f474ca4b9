# Every outside library, found once. What is missing is named with the package that holds it.

find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_path(STB_INCLUDE_DIR stb/stb_image.h DOC "stb_image.h (package libstb-dev)" REQUIRED)

if(WHISKER_ONEDNN)
  find_package(dnnl 2.6 REQUIRED CONFIG)  # package libdnnl-dev
else()
  # Package libopenblas-openmp-dev: the OpenMP flavour shares the backend's threads.
  find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-openmp openblas REQUIRED)
  find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp REQUIRED)
  add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION "${OPENBLAS_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OPENBLAS_INCLUDE_DIR}")
endif()

if(WHISKER_TESTS)
  find_package(GTest REQUIRED)
  find_package(ZLIB REQUIRED)  # the PNG writer of the tests
  include(GoogleTest)
endif()
