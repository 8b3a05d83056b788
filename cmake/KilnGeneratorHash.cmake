# A hash of the sources that decide what code is generated, as a header. Part of every Artifact key, so that
# code made by another generator is never served. Depends on content alone: no paths, no times, no order.
#
# Included by CMakeLists.txt it adds the build step; run with -P it makes the header OUTPUT from the folder
# SOURCE.
set(kiln_generator_folders ir/base ir/tile ir/templates jit)

if(CMAKE_SCRIPT_MODE_FILE)
  set(hashes)
  foreach(folder IN LISTS kiln_generator_folders)
    file(GLOB_RECURSE files ${SOURCE}/${folder}/*.cc ${SOURCE}/${folder}/*.h ${SOURCE}/${folder}/*.def)
    foreach(source IN LISTS files)
      file(SHA256 ${source} hash)
      list(APPEND hashes ${hash})
    endforeach()
  endforeach()
  list(SORT hashes)
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 32 hash)
  file(CONFIGURE OUTPUT ${OUTPUT} NEWLINE_STYLE UNIX CONTENT
"// Made by cmake/KilnGeneratorHash.cmake.
#pragma once

#include <string_view>

namespace kiln::jit {
constexpr std::string_view kGeneratorHash = \"${hash}\";
}  // namespace kiln::jit
")
  return()
endif()

set(kiln_generator_sources)
foreach(folder IN LISTS kiln_generator_folders)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*.h ${folder}/*.def)
  list(APPEND kiln_generator_sources ${files})
endforeach()
set(kiln_generator_header ${PROJECT_BINARY_DIR}/generated/kiln_generator_hash.h)
# file(CONFIGURE) leaves an unchanged header alone, so that only a real change compiles anything again.
add_custom_command(OUTPUT ${kiln_generator_header}
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${kiln_generator_header}
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${kiln_generator_sources} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
add_custom_target(kiln_generated DEPENDS ${kiln_generator_header})
target_sources(kiln_jit_cache PRIVATE ${kiln_generator_header})
target_include_directories(kiln_jit_cache PRIVATE ${PROJECT_BINARY_DIR}/generated)
