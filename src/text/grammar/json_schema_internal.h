/*
 * The parts of the schema compiler.
 *
 * What a value must meet is a conjunction: a list of schemas (nodes of the document) that all apply.
 * References and allOf add nodes to it, anyOf and oneOf split it; what is left then is read keyword by
 * keyword over all nodes. A conjunction has one rule however often it occurs, which is what makes recursive
 * schemas end.
 */
#ifndef SLUICE_TEXT_GRAMMAR_JSON_SCHEMA_INTERNAL_H
#define SLUICE_TEXT_GRAMMAR_JSON_SCHEMA_INTERNAL_H

#include "text/grammar/json_number.h"
#include "text/grammar/json_schema.h"

enum { CONJUNCTION_NODES_MAX = 64, SCHEMA_BUCKETS = 1024 };

enum schema_type {
    SCHEMA_NULL = 1,
    SCHEMA_BOOLEAN = 2,
    SCHEMA_INTEGER = 4,
    SCHEMA_REAL = 8, /* numbers that are no integers */
    SCHEMA_STRING = 16,
    SCHEMA_ARRAY = 32,
    SCHEMA_OBJECT = 64,
    SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_REAL,
    SCHEMA_ALL = 127,
};

struct schema_node {
    const struct json *value; /* an object */
    const char *path;
    bool is_any_of_split, is_one_of_split;
};

struct conjunction {
    struct schema_node nodes[CONJUNCTION_NODES_MAX];
    size_t count;
    bool is_impossible; /* `false` is among them */
    bool is_plain_text; /* strings, which stand for themselves and not as JSON */
};

/* A conjunction that has a rule. */
struct schema_rule {
    struct schema_node *nodes;
    size_t count;
    bool is_impossible, is_plain_text;
    uint32_t rule;
    struct schema_rule *next_in_bucket;
    struct schema_rule *next_pending;
};

struct json_schema {
    const struct json_grammar *json;
    struct grammar_builder *builder;
    struct arena *arena; /* the builder's */
    const struct json *root;
    const char *root_path;
    struct schema_rule *buckets[SCHEMA_BUCKETS];
    struct schema_rule *pending; /* rules that are still to be compiled */
    struct json *made;           /* an array of the nodes that no document has */
    struct json_schema_parameter *parameters;
    size_t parameter_count;
    size_t comparison_count; /* of fixed values with each other, so far */
};

/* A path with something behind it. NULL if memory is out. */
const char *schema_path(const struct json_schema *schema, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds a schema, and what it refers to; every keyword is checked. Nodes that are there already stay once. */
enum status conjunction_add(struct json_schema *schema, struct conjunction *conjunction,
                            const struct json *value, const char *path);

/* The rule of a conjunction; it is compiled later. */
enum status schema_rule_of(struct json_schema *schema, const struct conjunction *conjunction, uint32_t *rule);

/* Compiles rules until none is pending. */
enum status schema_compile_pending(struct json_schema *schema);

/* Splits at the first anyOf or oneOf that is not split yet, if there is one: alternatives from state 0 to
 * `end`. */
enum status schema_split(struct json_schema *schema, const struct conjunction *conjunction, struct nfa *nfa,
                         uint32_t end, bool *is_split);

/* Checks that every keyword of the node is understood and has a value of its type. */
enum status schema_check_keywords(const struct json *value, const char *path);

/* The schema that a reference names. */
enum status schema_resolve(struct json_schema *schema, const char *reference, const char *path,
                           const struct json **out, const char **out_path);

/* The types that all nodes allow, of enum schema_type. */
unsigned conjunction_types(const struct conjunction *conjunction);

/* Whether a node has an enum or const. */
bool conjunction_has_values(const struct conjunction *conjunction);

/* The values that meet every enum, const and other keyword; in the schema's arena. */
enum status conjunction_values(struct json_schema *schema, const struct conjunction *conjunction,
                               const struct json *const **out, size_t *count);

bool schema_values_are_equal(const struct json *a, const struct json *b);

/* Before each of `a_count` values is compared with each of `b_count`: UNSUPPORTED if the schema has taken too
 * many comparisons. */
enum status schema_count_comparisons(struct json_schema *schema, size_t a_count, size_t b_count);

/* The type of a value; an integer is SCHEMA_INTEGER, and so is a real without fraction. */
unsigned schema_type_of(const struct json *value);

/* Each kind of value by all keywords of the nodes that concern it, from state 0 to `end`. */
enum status schema_add_number(const struct conjunction *conjunction, unsigned types, struct nfa *nfa,
                              uint32_t end);
enum status schema_add_string(struct json_schema *schema, const struct conjunction *conjunction,
                              struct nfa *nfa, uint32_t end);
enum status schema_add_array(struct json_schema *schema, const struct conjunction *conjunction,
                             struct nfa *nfa, uint32_t end);
enum status schema_add_object(struct json_schema *schema, const struct conjunction *conjunction,
                              struct nfa *nfa, uint32_t end);

/* The bounds of numbers. */
enum status conjunction_number_range(const struct conjunction *conjunction, struct number_range *out);

/* Whether an enum's number or string meets the other keywords; an object or array with any is refused. */
enum status schema_value_fits(struct json_schema *schema, const struct conjunction *conjunction,
                              const struct json *value, bool *fits);

/*
 * The texts of strings; *is_any: all of them, and `out` is empty. Without `with_lengths` lengths are looked
 * at only beside patterns and formats. Owned: dfa_deinit.
 */
enum status schema_string_text(struct json_schema *schema, const struct conjunction *conjunction,
                               bool with_lengths, struct dfa *out, bool *is_any);

/* A pattern for a format's name; NULL if it is none. */
const char *json_format_pattern(const char *name);

/* An object's properties. */
struct schema_property {
    const char *name;
    size_t name_length;
    bool is_required;
    bool is_possible; /* false: some node forbids it */
    struct conjunction *conjunction;
};

struct schema_object {
    struct schema_property *properties;
    size_t count, capacity;
    bool has_others; /* further properties, that meet: */
    struct conjunction *others;
    uint32_t minimum, maximum; /* how many properties */
    const char *path;          /* of the node that says so */
};

enum status schema_object_read(struct json_schema *schema, const struct conjunction *conjunction,
                               struct schema_object *out);

/* A keyword that counts something; `out` is as before if it is absent. Larger counts than fit are UINT32_MAX
 * - 1. */
enum status schema_count(const struct schema_node *node, const char *keyword, bool is_minimum, uint32_t *out);

#endif
