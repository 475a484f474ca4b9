# Flags shared by every target, and the two ways to declare one: whisker_library() and whisker_test().

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(whisker_flags INTERFACE)
set(whisker_warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wconversion -Wno-sign-conversion
    $<$<BOOL:${WHISKER_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # False positives where a short vector is copied.
  list(APPEND whisker_warnings -Wno-array-bounds -Wno-stringop-overflow)
endif()
target_compile_options(whisker_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${whisker_warnings}>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND WHISKER_TOGETHER AND NOT CCACHE)
  # Large sources: above 128 MB, its default, g++ collects its garbage again and again, for a tenth of the time.
  target_compile_options(whisker_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=409600>")
endif()
# For tests and subcommands, whose time goes into the libraries that they call: a quarter less to compile, and
# with a sanitizer a third less again.
set(whisker_small_code $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND
   CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND NOT CCACHE)
  # Both are on from -O2: without them no source of -O1 takes the precompiled header (-Winvalid-pch).
  foreach(option -munroll-only-small-loops -mvzeroupper)
    list(APPEND whisker_small_code $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${option}>)
  endforeach()
endif()
if(WHISKER_SANITIZE)
  set(whisker_small_code -O0)
  add_compile_options(-fsanitize=${WHISKER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WHISKER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's manual: with a sanitizer this warning has false positives (here in std::regex).
    add_compile_options(-Wno-maybe-uninitialized)
  endif()
endif()
if(WHISKER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage feedback from the libraries, too
endif()

# Compiles those of SOURCES that share a folder of the target's together, which takes a third of the time.
function(whisker_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  list(FILTER ARGN EXCLUDE REGEX "^(/|[.][.])")
  foreach(source ${ARGN})
    get_filename_component(folder "${source}" DIRECTORY)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "folder/${folder}")
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # it takes a source's names for a header's
  endif()
endfunction()

# Folders of core that are not compiled together: when optimised, g++ 13 warns of what is right in trace and breaks on
# nvidia.
set(whisker_apart "trace|nvidia")

# Compiles these folders of a library as whisker_small_code: they read, check and describe, which takes no time. Not with
# sanitizers, where it does. What is compiled together is one source with a name of CMake's; options of the single ones
# would take them out of it.
function(whisker_small_folders name)
  if(WHISKER_SANITIZE)
    return()
  endif()
  foreach(folder ${ARGN})
    if(WHISKER_TOGETHER AND NOT folder MATCHES "^(${whisker_apart})$")
      set(small "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/whisker_${name}.dir/Unity/unity_folder/${folder}_cxx.cxx")
    else()
      get_target_property(small whisker_${name} SOURCES)
      list(FILTER small INCLUDE REGEX "^${folder}/")
    endif()
    set_property(SOURCE ${small} APPEND PROPERTY COMPILE_OPTIONS "${whisker_small_code}")
  endforeach()
endfunction()

# whisker_library(NAME SOURCES... ): static library Whisker::NAME; headers are included as "folder/file.h".
function(whisker_library name)
  add_library(whisker_${name} STATIC ${ARGN})
  add_library(Whisker::${name} ALIAS whisker_${name})
  set_target_properties(whisker_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(whisker_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/whisker>)
  target_compile_features(whisker_${name} PUBLIC cxx_std_20)
  target_link_libraries(whisker_${name} PRIVATE $<BUILD_INTERFACE:whisker_flags>)
  if(WHISKER_SANITIZE OR WHISKER_TOGETHER)
    if(NOT WHISKER_SANITIZE)
      list(FILTER ARGN EXCLUDE REGEX "^(${whisker_apart})/")
    endif()
    whisker_compile_together(whisker_${name} ${ARGN})
    if(NOT WHISKER_SANITIZE AND NOT CCACHE)  # ccache takes no precompiled headers as it is; ./quickstart has none
      if(name MATCHES "core|layers")  # core's own: it has OpenMP
        target_precompile_headers(whisker_${name} PRIVATE <algorithm> <chrono> <filesystem> <functional> <map> <memory>
          <optional> <span> <string> <vector> <fmt/format.h>)
      else()
        target_precompile_headers(whisker_${name} REUSE_FROM whisker_layers)
      endif()
    endif()
  endif()
endfunction()

# whisker_test(NAME SOURCES... [ALONE PATTERNS]): a GoogleTest program; each TEST is a ctest entry. Beside those that
# fit PATTERNS, as of --gtest_filter, ctest runs nothing else. With AddressSanitizer or in an emulator, where starting a
# program takes longer than most tests, the program is one entry. Without WHISKER_LONG it leaves out whole networks, as
# smaller tests run all that they consist of, large shapes in bf16, whose loops are those of f32, kills by the hundred,
# which are about the disk, and how long 25 megapixels take. An emulator has neither the time for the largest tensors
# nor the seconds and the memory that two tests of files allow. Programs of many sources start first.
set(whisker_left_out "*FixedPreset.*:*Families.*:*EveryPreset.*:*Backbones.*:*RealSequences.*:*SoakOn.*:*BatchSizeAuto.*:*OfEveryKindOfPreset*:LargeShapes.OnTheCpuInBf16*:AtomicFile.KillNine*:DecodePng.*StayInTime")
if(CMAKE_CROSSCOMPILING)
  string(APPEND whisker_left_out ":LargeShapes.*:*/LargeShapes.*:LongSums.*:CpuAgreement.*:Safetensors.MemoryStaysBelow*:Yaml.HostileRepetitions*")
endif()
function(whisker_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ALONE" "")
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE whisker_flags GTest::gmock GTest::gtest_main)
  if(TARGET whisker_cuda)
    add_dependencies(${name} whisker_cuda)  # opened at run time: see core/nvidia/cuda_library.h
  endif()
  target_compile_options(${name} PRIVATE ${whisker_small_code})
  if(WHISKER_SANITIZE OR WHISKER_TOGETHER)
    whisker_compile_together(${name} ${arg_UNPARSED_ARGUMENTS})
  endif()
  # Threads that wait sleep soon, as the program's do: see Note [Spinning]. Two properties, as a list of one would be
  # taken apart.
  set(properties TIMEOUT 600 ENVIRONMENT "XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/test_cache"
      ENVIRONMENT_MODIFICATION GOMP_SPINCOUNT=set:1000)
  if(WHISKER_SANITIZE MATCHES address OR CMAKE_CROSSCOMPILING)
    list(LENGTH arg_UNPARSED_ARGUMENTS sources)
    if(DEFINED ENV{WHISKER_LONG})
      set(whisker_left_out "")
    endif()
    add_test(NAME ${name} COMMAND ${name} --gtest_brief=1 "--gtest_filter=-${whisker_left_out}")
    set_tests_properties(${name} PROPERTIES ${properties} TIMEOUT 1800 COST ${sources})
    return()
  endif()
  if(arg_ALONE)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_FILTER "${arg_ALONE}" TEST_LIST ${name}_ALONE
      PROPERTIES ${properties} RUN_SERIAL TRUE)
    set(others TEST_FILTER "-${arg_ALONE}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 ${others} PROPERTIES ${properties})
endfunction()
