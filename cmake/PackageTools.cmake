# Read by cpack: without these tools the package would not say what it depends on.
foreach(tool IN ITEMS dpkg-shlibdeps file)
  string(REPLACE dpkg-shlibdeps dpkg-dev package "${tool}")
  find_program(found_${tool} "${tool}")
  if(CPACK_GENERATOR STREQUAL DEB AND NOT found_${tool})
    message(FATAL_ERROR "cpack: ${tool} is missing, which finds what the package depends on: apt-get install ${package}")
  endif()
endforeach()
