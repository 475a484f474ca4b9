# The CUDA backend's outside world, found once: nvcc, the toolkit's libraries and cuDNN; and the
# language's flags. Included only when WHISKER_CUDA is ON.

# What scripts/find_cuda.sh prints, given its arguments and CUDACXX; ends the configuration where it
# says what is missing.
function(whisker_find_cuda result cudacxx)
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "CUDACXX=${cudacxx}" "${PROJECT_SOURCE_DIR}/scripts/find_cuda.sh" ${ARGN}
    OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "WHISKER_CUDA is ON, but ${said}: needs nvcc and cuDNN 9.14 or newer. Install them (cuda-toolkit, "
      "cudnn9-cuda-13), or name others: -DWHISKER_NVCC=FILE -DCUDNN_INCLUDE_DIR=FOLDER -DCUDNN_LIBRARY=FILE.")
  endif()
  set(${result} "${said}" PARENT_SCOPE)
endfunction()

# What an earlier configuration found and is no longer there is looked for again. Values from a command
# line have no type until something is found for them: they stay, and are refused where they are wrong.
get_cmake_property(cached CACHE_VARIABLES)
list(FILTER cached INCLUDE REGEX "^(WHISKER_NVCC$|CUDNN_|CUDA_|CUDAToolkit_)")
foreach(name IN LISTS cached)
  get_property(type CACHE ${name} PROPERTY TYPE)
  if(type MATCHES "PATH$" AND IS_ABSOLUTE "${${name}}" AND NOT EXISTS "${${name}}")
    message(STATUS "${name}: ${${name}} is gone, looking for another")
    unset(${name} CACHE)
  endif()
endforeach()
if(WHISKER_NVCC)
  whisker_find_cuda(nvcc "${WHISKER_NVCC}" nvcc)  # or it says that there is none
else()
  file(REMOVE "${CMAKE_PLATFORM_INFO_DIR}/CMakeCUDACompiler.cmake")  # what CMake knows of one that is gone
  whisker_find_cuda(nvcc "$ENV{CUDACXX}" nvcc)
  set(WHISKER_NVCC "${nvcc}" CACHE FILEPATH "nvcc; scripts/find_cuda.sh says where it is looked for" FORCE)
endif()
get_filename_component(toolkit "${WHISKER_NVCC}/../.." ABSOLUTE)
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS "${toolkit}/include" DOC "Headers of cuDNN 9.14 or newer (package cudnn9-cuda-13)")
if(NOT CUDNN_INCLUDE_DIR)
  set(CUDNN_INCLUDE_DIR "${toolkit}/include")  # where it is then said not to be
endif()
whisker_find_cuda(cudnn_version "" cudnn "${CUDNN_INCLUDE_DIR}")
message(STATUS "CUDA: ${WHISKER_NVCC}, cuDNN ${cudnn_version}")

set(CMAKE_CUDA_COMPILER "${WHISKER_NVCC}")
set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()

# "native" is the GPU of this machine; where nvcc sees none it would build for the oldest that it knows.
set(query "${toolkit}/bin/__nvcc_device_query")
if(WHISKER_CUDA_ARCHITECTURES STREQUAL "native" AND EXISTS "${query}")
  execute_process(COMMAND "${query}" RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
  if(no_gpu)
    message(WARNING "WHISKER_CUDA_ARCHITECTURES is native, but nvcc sees no GPU here: building for all")
    set(WHISKER_CUDA_ARCHITECTURES "${all_cuda_architectures}")
  endif()
endif()
# Of a list, what this nvcc knows; machine code for each, and PTX of the newest for later GPUs.
if(WHISKER_CUDA_ARCHITECTURES STREQUAL "native")
  set(CMAKE_CUDA_ARCHITECTURES native)
else()
  execute_process(COMMAND "${WHISKER_NVCC}" --list-gpu-code OUTPUT_VARIABLE known_codes)
  set(CMAKE_CUDA_ARCHITECTURES "")
  set(newest 0)
  foreach(architecture IN LISTS WHISKER_CUDA_ARCHITECTURES)
    string(REGEX REPLACE "[a-z]+$" "" plain "${architecture}")
    if(known_codes MATCHES "sm_${plain}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES "${architecture}-real")
      if(plain GREATER newest)
        set(newest "${plain}")
      endif()
    endif()
  endforeach()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "WHISKER_CUDA_ARCHITECTURES: ${WHISKER_NVCC} knows none of '${WHISKER_CUDA_ARCHITECTURES}'.")
  endif()
  list(LENGTH CMAKE_CUDA_ARCHITECTURES architecture_count)
  if(architecture_count GREATER 1)
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${newest}-virtual")
  endif()
  if(newest LESS 90)
    add_compile_definitions(WHISKER_NO_PDL)  # kernels compiled for older GPUs cannot wait
  endif()
endif()

enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake 3.25 does not know yet that nvcc 12 and later take it.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)
find_library(CUDNN_LIBRARY cudnn HINTS "${CUDAToolkit_LIBRARY_DIR}" REQUIRED DOC "libcudnn.so of cuDNN 9.14 or newer")

# Where a program finds libwhisker_cuda.so: in the build tree, or installed beside its own lib.
list(APPEND CMAKE_BUILD_RPATH "${PROJECT_BINARY_DIR}")
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
