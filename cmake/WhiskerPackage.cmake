# cpack: a .deb of the installation, for the system that it was built on.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME whisker)
set(CPACK_PACKAGE_CONTACT "The Whisker contributors <whisker@example.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains and runs neural networks on images, texts, tables and series")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # Depends: what the program is linked against
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/PackageTools.cmake")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "curl, ca-certificates, unzip")  # the scripts'
include(CPack)
