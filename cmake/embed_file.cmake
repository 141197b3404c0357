# A file as a C array: cmake -DINPUT=... -DNAME=... -DOUTPUT=... -P embed_file.cmake
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "((0x..,){20})" "    \\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "/* Made of a file of the source by embed_file.cmake. */
#include <stddef.h>

extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_length;

const unsigned char ${NAME}[] = {
${bytes}
};
const size_t ${NAME}_length = sizeof ${NAME};
")
