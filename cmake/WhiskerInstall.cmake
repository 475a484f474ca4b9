# cmake --install: the program, the libraries, their headers, and find_package(Whisker).
include(CMakePackageConfigHelpers)

set(whisker_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Whisker")
install(TARGETS whisker_core whisker_layers whisker_optim whisker_data whisker_train
        EXPORT WhiskerTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS whisker_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(WHISKER_CUDA)
  install(TARGETS whisker_cuda LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
foreach(folder core layers optim data train)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/whisker"
          FILES_MATCHING PATTERN "*.h" PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE PATTERN "reference" EXCLUDE)
endforeach()
install(FILES "${PROJECT_BINARY_DIR}/core/generated/core/version.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/whisker/core")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/configs" DESTINATION "${CMAKE_INSTALL_DATADIR}/whisker")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/course" DESTINATION "${CMAKE_INSTALL_DATADIR}/whisker")
install(PROGRAMS "${PROJECT_SOURCE_DIR}/docs/course/gpu/run_all.sh" DESTINATION "${CMAKE_INSTALL_DATADIR}/whisker/course/gpu")
# Those that the guides name. Beside configs/, as in the sources: fetch_weights.sh reads configs/presets/pretrained.yaml.
foreach(script fetch_cats_dogs.sh fetch_weights.sh install_packages.sh)
  install(PROGRAMS "${PROJECT_SOURCE_DIR}/scripts/${script}" DESTINATION "${CMAKE_INSTALL_DATADIR}/whisker/scripts")
endforeach()

install(EXPORT WhiskerTargets NAMESPACE Whisker:: DESTINATION "${whisker_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/WhiskerConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/WhiskerConfig.cmake" INSTALL_DESTINATION "${whisker_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/WhiskerConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/WhiskerConfig.cmake" "${PROJECT_BINARY_DIR}/WhiskerConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/WhiskerLibraries.cmake" DESTINATION "${whisker_package_dir}")
