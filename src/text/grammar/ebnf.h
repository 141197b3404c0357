/*
 * Grammars as people write them: GBNF (llama.cpp), EBNF as in vLLM's examples, and a small part of Lark.
 *
 *   rule ::= alternatives          also `rule: ...`; the text is what `root`, or else `start`, stands for
 *   "text" 'text' "text"i          with \n \r \t \\ \" \' \xHH \uHHHH; i: letters in either case
 *   [a-z] [^"\\] . /pattern/       one character, any but a newline, a regular expression (pattern.h)
 *   ( ... ) a | b  a? a* a+ a{2,5}
 *   # comment  // comment          to the end of the line
 *
 * A rule ends where the next one begins. Lark's `?rule:`, `!rule:` and `-> alias` shape trees and are read
 * over; its directives (%import, %ignore) and templates are refused, and so is left recursion. One thread at
 * a time.
 */
#ifndef SLUICE_TEXT_GRAMMAR_EBNF_H
#define SLUICE_TEXT_GRAMMAR_EBNF_H

#include "text/grammar/grammar.h"

/* Errors name the line. Owned: grammar_destroy. */
enum status ebnf_compile(const char *text, size_t length, struct grammar **out);

#endif
