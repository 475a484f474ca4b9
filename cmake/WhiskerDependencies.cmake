# Every outside library, found once. What is missing is named with the package that holds it.

find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)

if(WHISKER_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
