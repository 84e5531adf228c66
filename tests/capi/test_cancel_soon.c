/* Every function that takes a cancel token, on the worst input known for it, cancelled while it is at work: it ends as cancelled. How
 * many milliseconds it went on is printed; with a third argument, the most that may be, it is an error too (make cancel-soon). */
#define _GNU_SOURCE
#include "check.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const size_t NUL = EMBER_NUL_TERMINATED;
static char folder[] = "/tmp/ember-cancel-XXXXXX";
static double most_ms = -1, worst;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static ember_cancel_token *token;
static double cancelled_at;
static long wait_ms;

static void *cancel(void *unused)
{
    (void)unused;
    usleep((useconds_t)wait_ms * 1000);
    cancelled_at = now_ms();
    ember_cancel_token_cancel(token);
    return NULL;
}

static pthread_t canceller;

/* The token is cancelled in so many milliseconds. */
static void begin(long ms)
{
    ember_cancel_token_reset(token);
    wait_ms = ms;
    cancelled_at = 0;
    if (pthread_create(&canceller, NULL, cancel, NULL) != 0)
        exit(1);
}

static void end(const char *what, bool was_cancelled)
{
    double ended = now_ms();
    pthread_join(canceller, NULL);
    double ms = ended - cancelled_at;
    printf("%-44s %8.1f ms%s\n", what, ms, was_cancelled ? "" : ", and was not cancelled");
    CHECK(was_cancelled);
    if (most_ms >= 0)
        CHECK(ms <= most_ms);
    worst = ms > worst ? ms : worst;
    ember_cancel_token_reset(token);
}

/* A GGUF file that is being written. */
static FILE *file;
static uint64_t n_keys, n_tensors, offset;
static long counts_at;
static struct {
    char name[64];
    uint64_t dims[3], n_bytes;
    uint32_t n_dims;
} tensors[32];

static void u32(uint32_t n) { fwrite(&n, 4, 1, file); }
static void u64(uint64_t n) { fwrite(&n, 8, 1, file); }
static void f32(float x) { fwrite(&x, 4, 1, file); }
static void string(const char *text)
{
    u64(strlen(text));
    fputs(text, file);
}
static void key(const char *name, uint32_t type)
{
    n_keys++;
    string(name);
    u32(type);
}
static void key_u32(const char *name, uint32_t n)
{
    key(name, 4);
    u32(n);
}
static void key_string(const char *name, const char *text)
{
    key(name, 8);
    string(text);
}
static void key_array(const char *name, uint32_t type, uint64_t n)
{
    key(name, 9);
    u32(type);
    u64(n);
}
static void begin_file(const char *path)
{
    file = fopen(path, "wb");
    if (file == NULL)
        exit(1);
    fputs("GGUF", file);
    u32(3);
    counts_at = ftell(file);
    u64(0);
    u64(0);
    n_keys = n_tensors = offset = 0;
}
static void tensor(const char *name, uint64_t a, uint64_t b, uint64_t c)
{
    snprintf(tensors[n_tensors].name, sizeof tensors->name, "%s", name);
    tensors[n_tensors].dims[0] = a;
    tensors[n_tensors].dims[1] = b;
    tensors[n_tensors].dims[2] = c;
    tensors[n_tensors].n_dims = c > 0 ? 3 : b > 0 ? 2 : 1;
    tensors[n_tensors].n_bytes = 4 * a * (b > 0 ? b : 1) * (c > 0 ? c : 1);
    n_tensors++;
}
/* The directory, and numbers; all zero where `sparse`. */
static void end_file(void)
{
    for (uint64_t i = 0; i < n_tensors; i++) {
        string(tensors[i].name);
        u32(tensors[i].n_dims);
        for (uint32_t d = 0; d < tensors[i].n_dims; d++)
            u64(tensors[i].dims[d]);
        u32(0);
        u64(offset);
        offset += (tensors[i].n_bytes + 31) / 32 * 32;
    }
    while (ftell(file) % 32 != 0)
        fputc(0, file);
    for (uint64_t i = 0; i < offset / 4; i++)
        f32((float)(i * 2654435761u % 1024) / 4096 - 0.1f);
    fseek(file, counts_at, SEEK_SET);
    u64(n_tensors);
    u64(n_keys);
    if (fclose(file) != 0)
        exit(1);
}

enum { N_EMBD = 8, N_EXPERT = 100000 };

/* A llama of one layer with a vocabulary of one kind; with experts, if there are any. */
static void write_model(const char *path, const char *vocabulary, uint32_t n_vocab, uint32_t n_expert)
{
    begin_file(path);
    key_string("general.architecture", "llama");
    key_u32("llama.context_length", 128);
    key_u32("llama.embedding_length", N_EMBD);
    key_u32("llama.block_count", 1);
    key_u32("llama.feed_forward_length", N_EMBD);
    key_u32("llama.attention.head_count", 2);
    key_u32("llama.attention.head_count_kv", 1);
    key("llama.attention.layer_norm_rms_epsilon", 6);
    f32(1e-5f);
    if (n_expert > 0) {
        key_u32("llama.expert_count", n_expert);
        key_u32("llama.expert_used_count", n_expert);
    }
    if (vocabulary != NULL) {
        /* Pieces of one letter, longer and longer: each place of a text begins with all of them. */
        char *piece = calloc(n_vocab + 1, 1);
        key_string("tokenizer.ggml.model", vocabulary);
        key_string("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
        key_array("tokenizer.ggml.tokens", 8, n_vocab);
        for (uint32_t i = 0; i < n_vocab; i++) {
            if (i >= 3)
                piece[i - 3] = 'a';
            string(i == 0 ? "<unk>" : i == 1 ? "<s>" : i == 2 ? "</s>" : piece);
        }
        free(piece);
        key_array("tokenizer.ggml.scores", 6, n_vocab);
        for (uint32_t i = 0; i < n_vocab; i++)
            f32(-(float)i);
        key_array("tokenizer.ggml.token_type", 5, n_vocab);
        for (uint32_t i = 0; i < n_vocab; i++)
            u32(i == 0 ? 2 : i < 3 ? 3 : 1);
        key_u32("tokenizer.ggml.unknown_token_id", 0);
        key_u32("tokenizer.ggml.bos_token_id", 1);
        key_u32("tokenizer.ggml.eos_token_id", 2);
    }
    tensor("token_embd.weight", N_EMBD, n_vocab, 0);
    tensor("output_norm.weight", N_EMBD, 0, 0);
    tensor("blk.0.attn_norm.weight", N_EMBD, 0, 0);
    tensor("blk.0.ffn_norm.weight", N_EMBD, 0, 0);
    tensor("blk.0.attn_q.weight", N_EMBD, N_EMBD, 0);
    tensor("blk.0.attn_k.weight", N_EMBD, N_EMBD / 2, 0);
    tensor("blk.0.attn_v.weight", N_EMBD, N_EMBD / 2, 0);
    tensor("blk.0.attn_output.weight", N_EMBD, N_EMBD, 0);
    if (n_expert > 0) {
        tensor("blk.0.ffn_gate_inp.weight", N_EMBD, n_expert, 0);
        tensor("blk.0.ffn_gate_exps.weight", N_EMBD, N_EMBD, n_expert);
        tensor("blk.0.ffn_up_exps.weight", N_EMBD, N_EMBD, n_expert);
        tensor("blk.0.ffn_down_exps.weight", N_EMBD, N_EMBD, n_expert);
    } else {
        tensor("blk.0.ffn_gate.weight", N_EMBD, N_EMBD, 0);
        tensor("blk.0.ffn_up.weight", N_EMBD, N_EMBD, 0);
        tensor("blk.0.ffn_down.weight", N_EMBD, N_EMBD, 0);
    }
    end_file();
}

/* A file of two gigabytes that takes nothing on disk: an array of as many zeros. */
static void write_sparse(const char *path, uint32_t type, uint64_t n, long bytes)
{
    begin_file(path);
    key_string("general.architecture", "llama");
    key_array("x", type, n);
    fseek(file, bytes - 1, SEEK_CUR);
    fputc(0, file);
    end_file();
}

static char path[128];

static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void files(void)
{
    static const struct {
        const char *name;
        uint32_t type;
        uint64_t n;
    } arrays[] = {{"bytes", 0, 2000000000}, {"bools", 7, 2000000000}, {"numbers", 12, 250000000}, {"strings", 8, 250000000}};
    ember_model_options *options = NULL;
    ember_model *model = NULL;
    char what[64];
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_cancel_token(options, token, E));
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        write_sparse(at(arrays[i].name), arrays[i].type, arrays[i].n, 2000000000);
        snprintf(what, sizeof what, "load: an array of %s", arrays[i].name);
        begin(20);
        end(what, ember_model_load(path, NUL, options, &model, NULL) == EMBER_E_CANCELLED);
        ember_memory memory = {.struct_size = sizeof memory};
        snprintf(what, sizeof what, "estimate: an array of %s", arrays[i].name);
        begin(20);
        end(what, ember_memory_estimate(path, NUL, options, NULL, &memory, NULL) == EMBER_E_CANCELLED);
        /* It counts against a limit. */
        OK(ember_model_options_set_memory_limit(options, 100 << 20, E));
        FAILS(EMBER_E_NOMEM, "array", ember_model_load(path, NUL, options, &model, E));
        OK(ember_model_options_set_memory_limit(options, 0, E));
        remove(path);
    }
    ember_model_options_free(options);
}

static ember_context *context_of(const char *name, uint32_t n_batch, ember_model **model)
{
    ember_context_options *options = NULL;
    ember_context *context = NULL;
    OK(ember_model_load(at(name), NUL, NULL, model, E));
    OK(ember_context_options_new(&options, E));
    OK(ember_context_options_set_n_threads(options, 2, E));
    OK(ember_context_options_set_n_ctx(options, 128, E));
    OK(ember_context_options_set_n_batch(options, n_batch, E));
    OK(ember_context_new(*model, options, &context, E));
    ember_context_options_free(options);
    if (context == NULL)
        exit(1);
    return context;
}

static void mixtures(void)
{
    uint32_t ids[] = {3, 4, 5, 6, 7, 8, 9, 10};
    ember_model *model = NULL;
    ember_context *context;
    const size_t length = 8;
    float vectors[N_EMBD];
    size_t n = 0;
    write_model(at("experts"), NULL, 16, N_EXPERT);
    context = context_of("experts", 8, &model);
    OK(ember_context_set_cancel_token(context, token, E));
    begin(100);
    end("decode: 8 tokens, 100,000 experts", ember_context_decode(context, ids, NULL, NULL, NULL, 8, NULL) == EMBER_E_CANCELLED);
    begin(100);
    end("embed_tokens: 8 tokens, 100,000 experts",
        ember_embed_tokens(context, ids, 8, &length, 1, NULL, vectors, N_EMBD, &n, NULL) == EMBER_E_CANCELLED);
    OK(ember_context_set_cancel_token(context, NULL, E));
    ember_context_free(context);
    ember_model_release(model);
    remove(at("experts"));
}

/* All that tokenizes `text`, whose tokens are worked out for longer than anybody waits. */
static int32_t go_on(const ember_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

static int32_t go_on_talking(const ember_chat_event *event, void *user_data)
{
    (void)event, (void)user_data;
    return 0;
}

static void texts_of(ember_context *context, ember_model *model, const char *text, size_t n_texts, const char *vocabulary)
{
    const char **texts = calloc(n_texts, sizeof *texts);
    float *vectors = calloc(n_texts, N_EMBD * sizeof *vectors);
    ember_generate_options *options = NULL;
    ember_generator *generator = NULL;
    ember_engine *engine = NULL;
    ember_request *request = NULL;
    ember_conversation *conversation = NULL;
    ember_generate_result result = {.struct_size = sizeof result};
    char what[64];
    size_t n = 0;
    for (size_t i = 0; i < n_texts; i++)
        texts[i] = text;
    OK(ember_generate_options_new(&options, E));
    OK(ember_context_set_cancel_token(context, token, E));
    snprintf(what, sizeof what, "embed: %zu texts of %s", n_texts, vocabulary);
    begin(100);
    end(what, ember_embed(context, texts, NULL, n_texts, NULL, vectors, n_texts * N_EMBD, &n, NULL) == EMBER_E_CANCELLED);
    snprintf(what, sizeof what, "score: a text of %s", vocabulary);
    ember_token_score scores[1];
    begin(100);
    end(what, ember_score(context, text, NUL, text, NUL, NULL, scores, 1, &n, NULL, NULL) == EMBER_E_CANCELLED);
    /* The context's token, and the options'. */
    for (int own = 0; own < 2; own++) {
        OK(ember_generate_options_set_cancel_token(options, own ? token : NULL, E));
        OK(ember_context_set_cancel_token(context, own ? NULL : token, E));
        snprintf(what, sizeof what, "generate: a text of %s", vocabulary);
        begin(100);
        ember_status status = ember_generate(context, text, NUL, options, NULL, go_on, NULL, &result, NULL);
        end(what, status == EMBER_OK && result.finish_reason == EMBER_FINISH_CANCELLED);
        ember_event event = {.struct_size = sizeof event};
        snprintf(what, sizeof what, "generator: a text of %s", vocabulary);
        begin(100);
        status = ember_generator_new(context, text, NUL, options, NULL, &generator, NULL);
        end(what, status == EMBER_OK);
        if (status == EMBER_OK) {
            OK(ember_generator_next(generator, &event, E));
            CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
            ember_generator_free(generator);
        }
    }
    OK(ember_engine_new(model, NULL, &engine, E));
    snprintf(what, sizeof what, "engine_submit: a text of %s", vocabulary);
    begin(100);
    ember_status status = ember_engine_submit(engine, text, NUL, options, NULL, NULL, NULL, &request, NULL);
    end(what, status == EMBER_OK);
    if (status == EMBER_OK) {
        ember_event event = {.struct_size = sizeof event};
        OK(ember_request_next(request, 10000, &event, E));
        CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
        ember_request_free(request);
    }
    ember_engine_free(engine);
    ember_completions *completions = NULL;
    snprintf(what, sizeof what, "completions: a text of %s", vocabulary);
    begin(100);
    status = ember_completions_new(context, text, NUL, 1, options, NULL, &completions, NULL);
    end(what, status == EMBER_OK || status == EMBER_E_CANCELLED);
    if (status == EMBER_OK) {
        ember_event event = {.struct_size = sizeof event};
        uint32_t index = 0;
        OK(ember_completions_next(completions, &event, &index, E));
        if (event.kind != EMBER_EVENT_END || event.finish_reason != EMBER_FINISH_CANCELLED)
            printf("completions: an event of kind %d, %d\n", (int)event.kind, (int)event.finish_reason);
        CHECK(event.kind == EMBER_EVENT_END && event.finish_reason == EMBER_FINISH_CANCELLED);
        ember_completions_free(completions);
    }
    OK(ember_conversation_new(context, NULL, 0, NULL, options, &conversation, E));
    snprintf(what, sizeof what, "conversation_send: a text of %s", vocabulary);
    begin(100);
    status = ember_conversation_send(conversation, text, NUL, NULL, go_on_talking, NULL, NULL, NULL);
    end(what, status == EMBER_E_CANCELLED || status == EMBER_OK);
    ember_conversation_free(conversation);
    OK(ember_context_set_cancel_token(context, NULL, E));
    ember_generate_options_free(options);
    free(texts);
    free(vectors);
}

static void texts(void)
{
    static const struct {
        const char *vocabulary;
        uint32_t n_vocab;
        size_t length, n_texts;
    } kinds[] = {{"llama", 600, 20000000, 1}, {"t5", 3000, 15000, 1000}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ember_model *model = NULL;
        char *text = malloc(kinds[i].length + 1);
        if (text == NULL)
            exit(1);
        memset(text, 'a', kinds[i].length);
        text[kinds[i].length] = '\0';
        write_model(at("model"), kinds[i].vocabulary, kinds[i].n_vocab, 0);
        ember_context *context = context_of("model", 128, &model);
        texts_of(context, model, text, kinds[i].n_texts, kinds[i].vocabulary);
        ember_context_free(context);
        ember_model_release(model);
        remove(at("model"));
        free(text);
    }
}

/* Models that score texts: an encoder, and a decoder that is given a prompt. */
static void scores(void)
{
    static const char *const models[] = {"bert-labels", "bert-rerank", "qwen3-reranker"};
    const size_t length = 5000000;
    char *text = malloc(length + 1);
    if (text == NULL)
        exit(1);
    for (size_t i = 0; i < length; i++)
        text[i] = "the model "[i % 10];
    text[length] = '\0';
    const char *const texts[] = {text};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char name[64], what[64];
        ember_model *model = NULL;
        ember_context *context = NULL;
        float result[8];
        size_t n = 0;
        snprintf(name, sizeof name, "tests/fixtures/rank/%s.gguf", models[i]);
        OK(ember_model_load(name, NUL, NULL, &model, E));
        OK(ember_context_new(model, NULL, &context, E));
        OK(ember_context_set_cancel_token(context, token, E));
        if (i == 0) {
            snprintf(what, sizeof what, "classify: %s", models[i]);
            begin(100);
            end(what, ember_classify(context, texts, NULL, 1, NULL, result, 8, &n, NULL) == EMBER_E_CANCELLED);
        } else {
            snprintf(what, sizeof what, "rerank: %s", models[i]);
            begin(100);
            end(what, ember_rerank(context, "a", NUL, texts, NULL, 1, NULL, result, 8, &n, NULL) == EMBER_E_CANCELLED);
        }
        ember_context_free(context);
        ember_model_release(model);
    }
    free(text);
}

/* A folder whose vocabulary takes long to read. */
static void folders(void)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char from[128], to[128], hf[64], buffer[4096];
    ember_model_options *options = NULL;
    ember_model *model = NULL;
    snprintf(hf, sizeof hf, "%s/hf", folder);
    CHECK(mkdir(hf, 0700) == 0);
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "tests/fixtures/rank/qwen3-labels/%s", files[i]);
        snprintf(to, sizeof to, "%s/%s", hf, files[i]);
        FILE *source = fopen(from, "rb"), *copy = fopen(to, "wb");
        if (source == NULL || copy == NULL)
            exit(1);
        for (size_t n; (n = fread(buffer, 1, sizeof buffer, source)) > 0;)
            fwrite(buffer, 1, n, copy);
        fclose(source);
        CHECK(fclose(copy) == 0);
    }
    OK(ember_model_options_new(&options, E));
    OK(ember_model_options_set_cancel_token(options, token, E));
    static const char *const kinds[] = {"BPE", "Unigram", "WordPiece"};
    for (size_t kind = 0; kind < 3; kind++) {
        char what[64];
        snprintf(to, sizeof to, "%s/tokenizer.json", hf);
        file = fopen(to, "wb");
        if (file == NULL)
            exit(1);
        fprintf(file, "{\"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                      "\"trim_offsets\": true, \"use_regex\": true}, \"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
                      "false, \"trim_offsets\": true, \"use_regex\": true}, \"model\": {\"type\": \"%s\", \"vocab\": %c",
                kinds[kind], kind == 1 ? '[' : '{');
        for (int i = 0; i < 1000000; i++)
            if (kind == 1)
                fprintf(file, "%s[\"a%d\", -1.5]", i == 0 ? "" : ",", i);
            else
                fprintf(file, "%s\"a%d\": %d", i == 0 ? "" : ",", i, i);
        fputs(kind == 1 ? "], \"unk_id\": 0}}" : kind == 2 ? "}, \"unk_token\": \"a0\"}}" : "}, \"merges\": []}}", file);
        CHECK(fclose(file) == 0);
        snprintf(what, sizeof what, "load: a folder, %s", kinds[kind]);
        begin(50);
        end(what, ember_model_load(hf, NUL, options, &model, NULL) == EMBER_E_CANCELLED);
        remove(to);
    }
    ember_model_options_free(options);
    for (size_t i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s/%s", hf, files[i]);
        remove(to);
    }
    CHECK(rmdir(hf) == 0);
}

int main(int argc, char **argv)
{
    const char *runner = getenv("RUNNER");
    if (runner != NULL && *runner != '\0') {
        puts("cancel soon: not here");
        return 0;
    }
    (void)model_path(argc, argv);
    most_ms = argc > 2 ? atof(argv[2]) : -1;
    if (mkdtemp(folder) == NULL)
        return 1;
    OK(ember_cancel_token_new(&token, E));
    files();
    mixtures();
    texts();
    scores();
    folders();
    ember_cancel_token_free(token);
    CHECK(rmdir(folder) == 0);
    printf("the longest went on for %.1f ms\n", worst);
    return finish("cancel soon");
}
