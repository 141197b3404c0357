# Flags of every target. No -ffast-math and no fused multiply-add behind our back: results must not depend on
# what the compiler finds. No -march: the baseline runs everywhere, faster code is chosen at run time.
add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -ffp-contract=off)
# The libraries of all layers become part of a shared one too; its functions are nobody else's to replace.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
add_compile_options(-fno-semantic-interposition)
# Error records name source files: as in the repository, wherever it was built.
add_compile_options(-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
# Processes of one job compare it: all must run the same build.
add_link_options(-Wl,--build-id)
if(SLUICE_WERROR)
    add_compile_options(-Werror)
endif()
if(SLUICE_SANITIZE)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
endif()
if(SLUICE_SANITIZE_THREAD)
    add_compile_options(-fsanitize=thread)
    add_link_options(-fsanitize=thread)
endif()
if(SLUICE_FUZZ)
    # Coverage feedback in every library; only the fuzzers themselves take libFuzzer's main.
    add_compile_options(-fsanitize=fuzzer-no-link)
    add_link_options(-fsanitize=fuzzer-no-link)
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE AND NOT CMAKE_C_COMPILER_LAUNCHER)
    set(CMAKE_C_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()
