# Writes the CMake code of a page to FOLDER/CMakeLists.txt, and each block "```cpp NAME.cpp" to FOLDER/NAME.cpp.
#   awk -v folder=FOLDER -f page_code.awk PAGE
/^```cmake$/ {file = folder "/CMakeLists.txt"; next}
/^```cpp [^\/]+$/ {file = folder "/" $2; next}
/^```/ {file = ""}
file {print >file}
