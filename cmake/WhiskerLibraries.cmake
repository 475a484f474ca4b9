# The outside libraries that Whisker's own link against, found here when building and again by
# find_package(Whisker). What is missing is named with the package that holds it.

find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(JPEG REQUIRED)
if(WHISKER_FUZZ)
  # Fuzz targets parse and decode on one thread, and clang's OpenMP cannot be installed beside
  # another version's: without it, pragmas are ignored and _OPENMP is undefined.
  find_package(OpenMP COMPONENTS CXX)
  if(NOT OpenMP_CXX_FOUND)
    add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)
    target_compile_options(OpenMP::OpenMP_CXX INTERFACE -Wno-source-uses-openmp -Wno-unknown-pragmas)
  endif()
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()
find_package(Threads REQUIRED)
# Package libwebp-dev, which has no CMake files.
find_path(WEBP_INCLUDE_DIR webp/decode.h REQUIRED)
find_library(WEBP_LIBRARY webp REQUIRED)
if(NOT TARGET WebP::WebP)
  add_library(WebP::WebP UNKNOWN IMPORTED)
endif()
set_target_properties(WebP::WebP PROPERTIES
  IMPORTED_LOCATION "${WEBP_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${WEBP_INCLUDE_DIR}")

# Package libutf8proc-dev, likewise.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
if(NOT TARGET Utf8proc::utf8proc)
  add_library(Utf8proc::utf8proc UNKNOWN IMPORTED)
endif()
set_target_properties(Utf8proc::utf8proc PROPERTIES
  IMPORTED_LOCATION "${UTF8PROC_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${UTF8PROC_INCLUDE_DIR}")

# Packages libonnx-dev, whose CMake files name libraries of other packages, and libprotobuf-dev.
if(WHISKER_ONNX)
  find_path(ONNX_INCLUDE_DIR onnx/onnx-ml.pb.h)
  find_library(ONNX_PROTO_LIBRARY onnx_proto)
  find_library(PROTOBUF_LIBRARY protobuf)
  find_path(PROTOBUF_INCLUDE_DIR google/protobuf/message.h)
  if(ONNX_INCLUDE_DIR AND ONNX_PROTO_LIBRARY AND PROTOBUF_LIBRARY AND PROTOBUF_INCLUDE_DIR)
    set(WHISKER_ONNX ON)
    if(NOT TARGET Onnx::proto)
      add_library(Onnx::proto UNKNOWN IMPORTED)
    endif()
    set_target_properties(Onnx::proto PROPERTIES
      IMPORTED_LOCATION "${ONNX_PROTO_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${ONNX_INCLUDE_DIR};${PROTOBUF_INCLUDE_DIR}"
      INTERFACE_COMPILE_DEFINITIONS "ONNX_ML=1;ONNX_NAMESPACE=onnx"
      INTERFACE_LINK_LIBRARIES "${PROTOBUF_LIBRARY};Threads::Threads")
  elseif(WHISKER_ONNX STREQUAL AUTO)
    message(STATUS "no ONNX (packages libonnx-dev, libprotobuf-dev): whisker export is left out")
    set(WHISKER_ONNX OFF)
  else()
    message(FATAL_ERROR "WHISKER_ONNX is ${WHISKER_ONNX}, and the packages libonnx-dev and libprotobuf-dev are not there")
  endif()
endif()

if(WHISKER_ONEDNN)
  find_package(dnnl REQUIRED CONFIG)  # package libdnnl-dev: 2.6 on Debian 12, 3.1 on Ubuntu 24.04
  if(dnnl_VERSION VERSION_LESS 2.6)
    message(FATAL_ERROR "oneDNN ${dnnl_VERSION} is too old: 2.6 or newer is needed (package libdnnl-dev)")
  endif()
else()
  # Package libopenblas-openmp-dev: the OpenMP flavour shares the backend's threads.
  find_path(OPENBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas-openmp openblas REQUIRED)
  find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-openmp REQUIRED)
  if(NOT TARGET OpenBLAS::OpenBLAS)
    add_library(OpenBLAS::OpenBLAS UNKNOWN IMPORTED)
  endif()
  set_target_properties(OpenBLAS::OpenBLAS PROPERTIES
    IMPORTED_LOCATION "${OPENBLAS_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${OPENBLAS_INCLUDE_DIR}")
endif()
