# What `cmake --install` puts into a prefix: libkiln, the kiln command, the public headers, and the files with
# which find_package(kiln) defines the target kiln::kiln. Everything else is linked into libkiln and hidden, or
# is a shared library of Debian that it names itself, so that users need no other package to build.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(kiln_package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/kiln)
install(TARGETS kiln EXPORT kilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(EXPORT kilnTargets NAMESPACE kiln:: DESTINATION ${kiln_package_directory})

if(TARGET kiln_command)
  # The command finds the library beside it, wherever the prefix is moved.
  file(RELATIVE_PATH kiln_library_from_bin /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(kiln_command PROPERTIES INSTALL_RPATH "$ORIGIN/${kiln_library_from_bin}")
  install(TARGETS kiln_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/kilnConfig.cmake.in ${PROJECT_BINARY_DIR}/kilnConfig.cmake
                              INSTALL_DESTINATION ${kiln_package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kilnConfig.cmake ${PROJECT_BINARY_DIR}/kilnConfigVersion.cmake
        DESTINATION ${kiln_package_directory})
