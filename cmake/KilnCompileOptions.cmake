# Warnings, sanitizers and the linker, for our own code alone.
add_library(kiln_options INTERFACE)
target_compile_options(kiln_options INTERFACE
  -Wall -Wextra -Wpedantic $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual -Wswitch
  -Werror -ffunction-sections -fdata-sections)
# GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
target_compile_options(kiln_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_features(kiln_options INTERFACE cxx_std_20)

if(KILN_SANITIZE)
  add_compile_options(-fsanitize=${KILN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${KILN_SANITIZE})
  # Instrumented code hides from GCC that what it warns about cannot be reached.
  target_compile_options(kiln_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

if(KILN_FUZZ)
  # LLVM and protobuf have no RTTI of ours, which two of the checks want.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,function
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  target_compile_options(kiln_options INTERFACE -w)  # g++'s warnings are those that count
endif()

# Linking static LLVM takes 15 s with the default linker and 2 s with lld.
find_program(KILN_LLD NAMES ld.lld-22)
if(KILN_LLD)
  add_link_options(-fuse-ld=lld -B${CMAKE_BINARY_DIR}/linker)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/linker)
  file(CREATE_LINK ${KILN_LLD} ${CMAKE_BINARY_DIR}/linker/ld.lld SYMBOLIC)
endif()
