# Writes the server's page as a C file: cmake -DPAGE_DIR=src/server/page -DOUTPUT=page.c -P embed_page.cmake
#
# page.html with its style and its scripts put in, which makes it one file without a request to elsewhere, and
# the security policy that allows this style and this script and nothing else: their hashes are in it.

set(scripts transport markdown settings chat live main)

# The text of a file that is to stand between <name> and </name>.
function(read_part out file name)
    file(READ ${PAGE_DIR}/${file} text)
    string(FIND "${text}" "</${name}" end)
    if(NOT end EQUAL -1)
        message(FATAL_ERROR "${file}: \"</${name}\" would end its element early; write it otherwise")
    endif()
    set(${out} "${text}" PARENT_SCOPE)
endfunction()

# SHA-256 of a text in base64: 64 hexadecimal digits, three of which are two characters.
function(hash_base64 out text)
    set(alphabet ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
    string(SHA256 digits "${text}")
    set(encoded "")
    foreach(start RANGE 0 62 3)
        string(SUBSTRING "${digits}" ${start} 3 three)
        math(EXPR high "0x${three} >> 6")
        math(EXPR low "0x${three} & 63")
        string(SUBSTRING ${alphabet} ${high} 1 first)
        string(SUBSTRING ${alphabet} ${low} 1 second)
        string(APPEND encoded ${first}${second})
    endforeach()
    string(SUBSTRING "${digits}" 63 1 last)
    math(EXPR value "0x${last} << 2")
    string(SUBSTRING ${alphabet} ${value} 1 final)
    set(${out} "${encoded}${final}=" PARENT_SCOPE)
endfunction()

read_part(style page.css style)
set(script "")
foreach(name IN LISTS scripts)
    read_part(part ${name}.js script)
    string(APPEND script "${part}")
endforeach()
set(script "\"use strict\";\n${script}")

file(READ ${PAGE_DIR}/page.html page)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
hash_base64(style_hash "${style}")
hash_base64(script_hash "${script}")

file(WRITE ${OUTPUT}.html "${page}")
file(READ ${OUTPUT}.html bytes HEX)
file(REMOVE ${OUTPUT}.html)
string(LENGTH "${bytes}" length)
math(EXPR length "${length} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
       bytes "${bytes}")

file(WRITE ${OUTPUT} "/* Made of the files in src/server/page by cmake/embed_page.cmake. */
#include \"server/page.h\"

const char page_security_policy[] =
    \"default-src 'none'; script-src 'sha256-${script_hash}'; \"
    \"style-src 'sha256-${style_hash}'; img-src data:; connect-src 'self'; \"
    \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'\";

const size_t page_html_length = ${length};

const unsigned char page_html[] = {
${bytes}};
")
