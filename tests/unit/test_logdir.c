/* SPDX-License-Identifier: MIT */
/* Covers trainer/checkpoint/logdir. */
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/file.h"
#include "common/log.h"
#include "tests/unit/checkpoint_unit.h"
#include "trainer/checkpoint/checkpoint_state.h"
#include "trainer/checkpoint/logdir.h"
#include "trainer/compute/engine.h"

static char folder[256];
static struct engine engine;
static struct model *model;
static struct checkpoint_facts facts;

/* Steps of writing `checkpoint` that fail, once its new content is there, or of the file that it is
 * to name (-Wl,--wrap). */
enum { NOTHING, ITS_RENAME, ITS_FOLDERS_SYNC, THE_FILES_FOLDERS_SYNC };

static int failing;
static bool was_named;          /* the last rename was to `checkpoint` */
static bool was_saved;          /* and to another file */
static void (*at_rename)(void); /* before one, once */

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to)
{
    void (*now)(void) = at_rename;

    at_rename = NULL;
    if (now)
        now();
    was_named = strcmp(strrchr(to, '/') + 1, "checkpoint") == 0;
    was_saved = !was_named;
    if (!was_named || failing != ITS_RENAME)
        return __real_rename(from, to);
    errno = EIO;
    return -1;
}

static void (*at_open)(void); /* before a checkpoint is opened, once */
static int opened;            /* how many were */

enum error __real_checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint);
enum error __wrap_checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint);
enum error __wrap_checkpoint_open_foreign(const char *path, struct checkpoint **ret_checkpoint)
{
    void (*now)(void) = at_open;

    at_open = NULL;
    opened++;
    if (now)
        now();
    return __real_checkpoint_open_foreign(path, ret_checkpoint);
}

int __real_fsync(int descriptor);
int __wrap_fsync(int descriptor);
int __wrap_fsync(int descriptor)
{
    if (!(was_named && failing == ITS_FOLDERS_SYNC) &&
        !(was_saved && failing == THE_FILES_FOLDERS_SYNC))
        return __real_fsync(descriptor);
    errno = EIO;
    return -1;
}

static int set_up(void **state)
{
    struct engine_options options = {.device = "cpu", .blas = "plain", .threads = 1};

    (void)state;
    log_set_level(LOG_ERROR);
    unit_folder_make(folder);
    assert_ok(engine_open(&options, &engine));
    facts = small_facts();
    assert_ok(model_new(&facts.model, engine.kernel, &model));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    model_free(model);
    engine_close(&engine);
    unit_folder_remove(folder);
    return 0;
}

/* The model as it would be after `step` steps. */
static void set_step(int64_t step)
{
    float state[3] = {(float)step, 0, 0};

    assert_ok(model_write(model, state, step));
}

static void save(struct logdir *logdir, int64_t step)
{
    set_step(step);
    assert_ok(save_checkpoint(logdir, model, &facts));
    assert_int_equal(logdir_newest_step(logdir), step);
}

static char *in_folder(const char *name)
{
    static char path[2][600];
    static int turn;

    turn = !turn;
    snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

static void put(const char *name, const char *text)
{
    assert_ok(file_write_whole(in_folder(name), text, strlen(text)));
}

static void assert_content(const char *name, const char *expected)
{
    struct buffer text = BUFFER_INIT(1 << 20);

    assert_ok(file_read_whole(in_folder(name), &text));
    assert_string_equal(text.data, expected);
    buffer_release(&text);
}

/* Opens to look; the newest must be this step (-1: none). */
static void assert_newest(int64_t step)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = NULL;

    assert_ok(logdir_open_read(folder, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    assert_int_equal(checkpoint ? checkpoint_step(checkpoint) : -1, step);
    assert_int_equal(logdir_newest_step(logdir), step);
    checkpoint_close(checkpoint);
    logdir_close(logdir);
}

static void assert_newest_fails(enum error code, const char *message)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = NULL;

    assert_ok(logdir_open_read(folder, &logdir));
    assert_fails(logdir_newest(logdir, &checkpoint), code, message);
    assert_null(checkpoint);
    logdir_close(logdir);
    logdir_close(NULL);
}

static struct logdir *open_and_save(int64_t first, int64_t last)
{
    struct logdir *logdir = NULL;

    assert_ok(logdir_open(folder, 0, &logdir));
    for (int64_t step = first; step <= last; step++)
        save(logdir, step);
    return logdir;
}

static void test_five_are_kept_and_the_newest_is_named(void **state)
{
    struct logdir *logdir = open_and_save(0, 7);

    (void)state;
    logdir_close(logdir);
    assert_content("checkpoint", "model_checkpoint_path: \"model.ckpt-7.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-3.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-4.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-5.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-6.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-7.safetensors\"\n");
    assert_false(is_there("model.ckpt-2.safetensors"));
    assert_true(is_there("model.ckpt-3.safetensors"));
    assert_newest(7);
}

static void test_a_new_folder_has_none(void **state)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = NULL;

    (void)state;
    assert_ok(logdir_open(in_folder("a/b/c"), 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    assert_null(checkpoint);
    assert_string_equal(logdir_newest_path(logdir), "");
    assert_int_equal(logdir_newest_step(logdir), -1);
    logdir_close(logdir);
    assert_fails(logdir_open_read(in_folder("nothing"), &logdir), ERROR_NOT_FOUND, "nothing");
}

static void test_the_list_goes_on_after_a_restart(void **state)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = open_and_save(0, 3);

    (void)state;
    logdir_close(logdir);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    save(logdir, 4);
    save(logdir, 5);
    logdir_close(logdir);
    assert_false(is_there("model.ckpt-0.safetensors"));
    assert_true(is_there("model.ckpt-1.safetensors"));
    assert_newest(5);
}

static void test_saving_a_step_again_lists_it_once(void **state)
{
    struct logdir *logdir = open_and_save(1, 2);

    (void)state;
    save(logdir, 2);
    logdir_close(logdir);
    assert_content("checkpoint", "model_checkpoint_path: \"model.ckpt-2.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-1.safetensors\"\n"
                                 "all_model_checkpoint_paths: \"model.ckpt-2.safetensors\"\n");
}

static void test_a_second_trainer_is_refused(void **state)
{
    struct logdir *first = NULL, *second = NULL;
    char process[40];

    (void)state;
    assert_ok(logdir_open(folder, 0, &first));
    /* At once: it lives on this machine. */
    assert_fails(logdir_open(folder, 3600000, &second), ERROR_CONFLICT,
                 "in use by another trainer");
    snprintf(process, sizeof(process), "process %d", (int)getpid());
    assert_non_null(strstr(error_message(), process));
    assert_newest(-1); /* looking is allowed */
    logdir_close(first);
    assert_ok(logdir_open(folder, 0, &second));
    logdir_close(second);
}

static void *close_later(void *context)
{
    usleep(300000);
    logdir_close(context);
    return NULL;
}

/* As if another had taken the lock: writes the same file. */
static void say_holder(const char *text)
{
    FILE *holder = fopen(in_folder("trainer.lock"), "w");
    assert_non_null(holder);
    fputs(text, holder);
    fclose(holder);
}

/* As of a node that died, whose NFS server finds out after a while. */
static void test_a_holder_elsewhere_is_waited_for(void **state)
{
    struct logdir *first = NULL, *second = NULL;
    pthread_t thread;

    (void)state;
    assert_ok(logdir_open(folder, 0, &first));
    say_holder("process 7 on a-node-that-died\n");
    assert_fails(logdir_open(folder, 250, &second), ERROR_CONFLICT,
                 "in use by another trainer (process 7 on a-node-that-died)");
    assert_int_equal(pthread_create(&thread, NULL, close_later, first), 0);
    assert_ok(logdir_open(folder, 60000, &second));
    assert_int_equal(pthread_join(thread, NULL), 0);
    logdir_close(second);
}

/* A container that is started again on another node keeps its host name. */
static void test_a_machine_of_the_same_name_is_another(void **state)
{
    struct logdir *first = NULL, *second = NULL;
    char host[256] = "", text[700];
    pthread_t thread;

    (void)state;
    assert_ok(logdir_open(folder, 0, &first));
    assert_int_equal(gethostname(host, sizeof(host) - 1), 0);
    snprintf(text, sizeof(text),
             "process 1 on %s\nmark 0123456789abcdef\nmachine %s 00000000-0000-0000-0000-0000\n",
             host, host);
    say_holder(text);
    assert_int_equal(pthread_create(&thread, NULL, close_later, first), 0);
    assert_ok(logdir_open(folder, 60000, &second));
    assert_int_equal(pthread_join(thread, NULL), 0);
    logdir_close(second);
}

static void test_a_lock_ends_with_its_process(void **state)
{
    struct logdir *logdir = NULL;
    pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        if (logdir_open(folder, 0, &logdir))
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_ok(logdir_open(folder, 0, &logdir));
    logdir_close(logdir);
}

/* As by a trainer on another machine, which got the lock when this one's lease was over. */
static void test_a_folder_that_was_taken_over_is_left_alone(void **state)
{
    struct logdir *logdir = open_and_save(1, 2);

    (void)state;
    say_holder("process 7 on this-host\nmark 0123456789abcdef\n");
    set_step(2);
    assert_fails(save_checkpoint(logdir, model, &facts), ERROR_CONFLICT,
                 "was taken over by another trainer (process");
    set_step(3);
    assert_fails(save_checkpoint(logdir, model, &facts), ERROR_CONFLICT, "on this-host)");
    assert_false(is_there("model.ckpt-3.safetensors"));
    assert_newest(2);
    logdir_close(logdir);
}

static void test_what_an_interrupted_save_left_is_removed(void **state)
{
    struct logdir *logdir = open_and_save(1, 2);

    (void)state;
    logdir_close(logdir);
    put("model.ckpt-3.safetensors.tmp.77.0", "half");
    put("checkpoint.tmp.77.1", "half");
    put("notes.tmp.txt", "mine");
    put("model.ckpt-9.safetensors", "renamed, but never named: kill -9 came between");
    assert_newest(2);
    assert_true(is_there("checkpoint.tmp.77.1")); /* looking changes nothing */
    assert_ok(logdir_open(folder, 0, &logdir));
    logdir_close(logdir);
    assert_false(is_there("model.ckpt-3.safetensors.tmp.77.0"));
    assert_false(is_there("checkpoint.tmp.77.1"));
    assert_true(is_there("notes.tmp.txt"));
    assert_true(is_there("model.ckpt-9.safetensors"));
    assert_newest(2);
}

static const char *state_text(int64_t first, int64_t last)
{
    static char text[2000];
    int length = snprintf(text, sizeof(text),
                          "model_checkpoint_path: \"model.ckpt-%" PRId64 ".safetensors\"\n", last);

    for (int64_t step = first; step <= last; step++)
        length +=
            snprintf(text + length, sizeof(text) - (size_t)length,
                     "all_model_checkpoint_paths: \"model.ckpt-%" PRId64 ".safetensors\"\n", step);
    return text;
}

static void assert_files(int64_t first, int64_t last)
{
    for (int64_t step = first - 3; step <= last + 1; step++) {
        char name[64];

        snprintf(name, sizeof(name), "model.ckpt-%" PRId64 ".safetensors", step);
        assert_int_equal(is_there(name), step >= first && step <= last);
    }
}

/* The folder as kill -9 leaves it between the state file and the removal: steps 1 to 6 are named,
 * and the first `gone` of them are removed already. */
static void leave_six(int64_t gone)
{
    struct buffer bytes = BUFFER_INIT(1 << 20);
    struct logdir *logdir = open_and_save(1, 5);

    logdir_close(logdir);
    assert_ok(file_read_whole(in_folder("model.ckpt-5.safetensors"), &bytes));
    assert_ok(file_write_whole(in_folder("model.ckpt-6.safetensors"), bytes.data, bytes.length));
    buffer_release(&bytes);
    put("checkpoint", state_text(1, 6));
    if (gone)
        assert_int_equal(unlink(in_folder("model.ckpt-1.safetensors")), 0);
}

static void test_a_removal_that_was_cut_off_is_finished_by_the_next_run(void **state)
{
    (void)state;
    for (int64_t gone = 0; gone <= 1; gone++) {
        struct checkpoint *checkpoint = NULL;
        struct logdir *logdir = NULL;

        leave_six(gone);
        assert_ok(logdir_open_read(folder, &logdir));
        assert_ok(logdir_newest(logdir, &checkpoint));
        checkpoint_close(checkpoint);
        logdir_close(logdir);
        assert_int_equal(is_there("model.ckpt-1.safetensors"), !gone); /* looking changes nothing */
        assert_ok(logdir_open(folder, 0, &logdir));
        assert_ok(logdir_newest(logdir, &checkpoint));
        checkpoint_close(checkpoint);
        assert_files(2, 6);
        assert_content("checkpoint", state_text(2, 6));
        save(logdir, 7);
        assert_files(3, 7);
        assert_content("checkpoint", state_text(3, 7));
        logdir_close(logdir);
        unit_folder_remove(folder);
        unit_folder_make(folder);
    }
}

/* What cannot be removed stays named, is tried again, and nothing newer goes in its place. */
static void test_a_removal_that_fails_is_done_by_a_later_save(void **state)
{
    struct logdir *logdir = open_and_save(1, 5);

    (void)state;
    assert_int_equal(unlink(in_folder("model.ckpt-1.safetensors")), 0);
    assert_int_equal(mkdir(in_folder("model.ckpt-1.safetensors"), 0777), 0);
    save(logdir, 6);
    assert_content("checkpoint", state_text(1, 6));
    assert_files(1, 6);
    assert_int_equal(rmdir(in_folder("model.ckpt-1.safetensors")), 0);
    save(logdir, 7);
    logdir_close(logdir);
    assert_content("checkpoint", state_text(3, 7));
    assert_files(3, 7);
}

/* The newest of six is an older one by a person's choice, or by loss: it is not removed. */
static void test_what_is_gone_on_from_is_never_removed(void **state)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = NULL;
    char text[2100], name[64];

    (void)state;
    leave_six(0);
    snprintf(text, sizeof(text), "model_checkpoint_path: \"model.ckpt-1.safetensors\"\n%s",
             strchr(state_text(1, 6), '\n') + 1);
    put("checkpoint", text);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    assert_int_equal(checkpoint_step(checkpoint), 1);
    checkpoint_close(checkpoint);
    logdir_close(logdir);
    assert_files(1, 6);
    put("checkpoint", state_text(1, 6));
    for (int64_t step = 2; step <= 6; step++) {
        snprintf(name, sizeof(name), "model.ckpt-%" PRId64 ".safetensors", step);
        assert_int_equal(unlink(in_folder(name)), 0);
    }
    checkpoint = NULL;
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    assert_int_equal(checkpoint_step(checkpoint), 1);
    checkpoint_close(checkpoint);
    logdir_close(logdir);
    assert_files(1, 1);
}

/* What a person named is forgotten in its turn, and the file is left to the person. */
static void test_files_of_other_names_are_never_removed(void **state)
{
    char text[2100];
    struct logdir *logdir = open_and_save(1, 5);

    (void)state;
    logdir_close(logdir);
    put("best.safetensors", "mine");
    snprintf(text, sizeof(text),
             "model_checkpoint_path: \"model.ckpt-5.safetensors\"\n"
             "all_model_checkpoint_paths: \"best.safetensors\"\n%s",
             strchr(state_text(1, 5), '\n') + 1);
    put("checkpoint", text);
    assert_ok(logdir_open(folder, 0, &logdir));
    struct checkpoint *checkpoint = NULL;
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    save(logdir, 6);
    logdir_close(logdir);
    assert_content("checkpoint", state_text(2, 6));
    assert_content("best.safetensors", "mine");
}

static void test_without_the_state_file_the_largest_step_counts(void **state)
{
    struct logdir *logdir = open_and_save(8, 11);

    (void)state;
    logdir_close(logdir);
    assert_int_equal(unlink(in_folder("checkpoint")), 0);
    assert_newest(11);
}

/* As in a copy that was cut off: the others are ways back, and the next save lists them. */
static void test_without_the_state_file_others_count_too(void **state)
{
    struct logdir *logdir = open_and_save(8, 11);
    struct checkpoint *checkpoint = NULL;

    (void)state;
    logdir_close(logdir);
    assert_int_equal(unlink(in_folder("checkpoint")), 0);
    put("model.ckpt-11.safetensors", "cut o");
    assert_newest_fails(ERROR_INPUT, "model.ckpt-10.safetensors is whole: to go on from its step");
    assert_int_equal(unlink(in_folder("model.ckpt-11.safetensors")), 0);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    save(logdir, 11);
    save(logdir, 12);
    logdir_close(logdir);
    assert_content("checkpoint", state_text(8, 12));
}

static void train_on(void)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = NULL;

    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    for (int64_t step = 6; step <= 12; step++)
        save(logdir, step);
    logdir_close(logdir);
}

/* The trainer saves on while somebody looks: all that was named a moment ago is gone. */
static void test_who_looks_keeps_up_with_the_trainer(void **state)
{
    struct logdir *logdir = open_and_save(1, 5);

    (void)state;
    logdir_close(logdir);
    at_open = train_on;
    assert_newest(12);
    assert_null(at_open);
}

static void test_missing_files_are_passed_over(void **state)
{
    struct logdir *logdir = open_and_save(1, 4);

    (void)state;
    logdir_close(logdir);
    assert_int_equal(unlink(in_folder("model.ckpt-4.safetensors")), 0);
    assert_newest(3);
    for (int step = 1; step < 4; step++) {
        char name[64];

        snprintf(name, sizeof(name), "model.ckpt-%d.safetensors", step);
        assert_int_equal(unlink(in_folder(name)), 0);
    }
    assert_newest_fails(ERROR_NOT_FOUND, "model.ckpt-4.safetensors, which is not there");
    assert_newest_fails(ERROR_NOT_FOUND, "to start over, take another --logdir");
    put("model.ckpt-9.safetensors", "");
    put("model.ckpt-10.safetensors", "");
    assert_newest_fails(ERROR_NOT_FOUND, "/checkpoint to go on from model.ckpt-10.safetensors");
}

static void damage(const char *name)
{
    struct buffer bytes = BUFFER_INIT(1 << 20);

    assert_ok(file_read_whole(in_folder(name), &bytes));
    bytes.data[bytes.length - 1] ^= 1;
    assert_ok(file_write_whole(in_folder(name), bytes.data, bytes.length));
    buffer_release(&bytes);
}

static void test_a_damaged_newest_is_named_with_the_way_back(void **state)
{
    struct logdir *logdir = open_and_save(1, 3);

    (void)state;
    logdir_close(logdir);
    damage("model.ckpt-3.safetensors");
    assert_newest_fails(ERROR_INPUT, "model.ckpt-3.safetensors is damaged");
    assert_newest_fails(ERROR_INPUT, "model.ckpt-2.safetensors is whole: to go on from its step 2");
    damage("model.ckpt-2.safetensors");
    assert_newest_fails(ERROR_INPUT, "model.ckpt-1.safetensors is whole");
    damage("model.ckpt-1.safetensors");
    assert_newest_fails(ERROR_INPUT, "no older checkpoint");
    damage("model.ckpt-1.safetensors"); /* whole again */
    assert_int_equal(unlink(in_folder("model.ckpt-3.safetensors")), 0);
    assert_newest_fails(ERROR_INPUT, "model.ckpt-2.safetensors is damaged");
    assert_int_equal(unlink(in_folder("model.ckpt-2.safetensors")), 0);
    assert_newest(1);
}

static void test_a_person_may_name_an_older_one(void **state)
{
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = open_and_save(1, 3);

    (void)state;
    logdir_close(logdir);
    put("checkpoint", "# back\n  model_checkpoint_path :\"x\"\n"
                      "model_checkpoint_path: \"model.ckpt-2\"\r\n"
                      "all_model_checkpoint_timestamps: 1.5e9\n");
    assert_newest(2);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    save(logdir, 10);
    logdir_close(logdir);
    assert_newest(10);
    assert_true(is_there("model.ckpt-3.safetensors"));
}

/* A kill between a save's two writes leaves a file that nothing names. */
static void test_what_nothing_names_and_training_has_passed_is_removed(void **state)
{
    static const char *const stay[] = {"model.ckpt-9.safetensors", "model.ckpt-.safetensors",
                                       "model.ckpt-1", "model.ckpt-x.safetensors", "notes"};
    struct checkpoint *checkpoint = NULL;
    struct logdir *logdir = open_and_save(2, 4);

    (void)state;
    logdir_close(logdir);
    put("checkpoint", "model_checkpoint_path: \"model.ckpt-4.safetensors\"\n"
                      "all_model_checkpoint_paths: \"/else/where/model.ckpt-2\"\n");
    for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
        put(stay[i], "");
    put("model.ckpt-1.safetensors", "");
    assert_newest(4); /* looking removes nothing */
    assert_true(is_there("model.ckpt-1.safetensors") && is_there("model.ckpt-3.safetensors"));
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    assert_false(is_there("model.ckpt-1.safetensors") || is_there("model.ckpt-3.safetensors"));
    assert_true(is_there("model.ckpt-2.safetensors") && is_there("model.ckpt-4.safetensors"));
    for (size_t i = 0; i < sizeof(stay) / sizeof(stay[0]); i++)
        assert_true(is_there(stay[i]));
    logdir_close(logdir);
}

static void test_nothing_is_removed_that_a_person_may_have_meant(void **state)
{
    static const char *const states[] = {
        NULL, "model_checkpoint_path: \"model.ckpt-4\"\n",
        "model_checkpoint_path: \"model.ckpt-7.safetensors\"\n"
        "all_model_checkpoint_paths: \"model.ckpt-4.safetensors\"\n"
        "all_model_checkpoint_paths: \"model.ckpt-7.safetensors\"\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        struct checkpoint *checkpoint = NULL;
        struct logdir *logdir = open_and_save(3, 4);

        logdir_close(logdir);
        if (states[i])
            put("checkpoint", states[i]);
        else
            assert_int_equal(unlink(in_folder("checkpoint")), 0);
        assert_ok(logdir_open(folder, 0, &logdir));
        assert_ok(logdir_newest(logdir, &checkpoint));
        assert_int_equal(checkpoint_step(checkpoint), 4);
        checkpoint_close(checkpoint);
        logdir_close(logdir);
        assert_true(is_there("model.ckpt-3.safetensors"));
        assert_int_equal(unlink(in_folder("checkpoint")) && states[i], 0);
    }
}

static void test_a_malformed_state_file_is_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "does not say model_checkpoint_path"},
        {"all_model_checkpoint_paths: \"a\"\n", "does not say model_checkpoint_path"},
        {"model_checkpoint_path: \"a\"\nmodel_checkpoint_path: \"b\"\n", "line 2"},
        {"model_checkpoint_path: a\n", "line 1"},
        {"model_checkpoint_path: \"a\n", "line 1"},
        {"model_checkpoint_path: \"\"\n", "line 1"},
        {"model_checkpoint_path: \"a\\x\"\n", "line 1"},
        {"model_checkpoint_path: \"a\\\"\n", "line 1"},
        {"model_checkpoint_path: \"a\"b\"\n", "line 1"},
        {"\n\nrubbish\n", "line 3"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put("checkpoint", cases[i].text);
        assert_newest_fails(ERROR_INPUT, cases[i].message);
        assert_newest_fails(ERROR_INPUT, in_folder("checkpoint"));
        assert_newest_fails(ERROR_INPUT, "remove that file");
    }
}

/* The newest stays the newest when an older one goes, wherever they stand. */
static void test_a_list_without_an_older_one(void **state)
{
    struct checkpoint_state list = CHECKPOINT_STATE_INIT;

    (void)state;
    assert_ok(checkpoint_state_add(&list, "a"));
    assert_ok(checkpoint_state_add(&list, "b"));
    assert_ok(checkpoint_state_add(&list, "c"));
    checkpoint_state_remove(&list, 0);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.newest, 1);
    assert_ok(checkpoint_state_add(&list, "b")); /* again, as the newest */
    assert_int_equal(list.count, 2);
    assert_int_equal(list.newest, 1);
    assert_string_equal(list.names[0], "c");
    list.newest = 0;
    checkpoint_state_remove(&list, 1);
    assert_int_equal(list.newest, 0);
    checkpoint_state_release(&list);
}

static void test_names_with_quotes_read_back(void **state)
{
    struct checkpoint_state list = CHECKPOINT_STATE_INIT, again = CHECKPOINT_STATE_INIT;
    struct buffer text = BUFFER_INIT(1 << 20);

    (void)state;
    assert_ok(checkpoint_state_add(&list, "a \"b\" \\ c"));
    assert_ok(checkpoint_state_add(&list, "/absolute/name"));
    assert_ok(checkpoint_state_print(&list, &text));
    assert_ok(checkpoint_state_parse(&again, text.data, text.length, "text"));
    assert_int_equal(again.count, 2);
    assert_string_equal(again.names[0], "a \"b\" \\ c");
    assert_string_equal(again.names[again.newest], "/absolute/name");
    checkpoint_state_release(&list);
    checkpoint_state_release(&again);
    buffer_release(&text);
}

/* A limit on the size of files stands for a full disk: write() fails in the middle. */
static void test_a_save_that_fails_changes_nothing(void **state)
{
    struct rlimit before, small = {.rlim_cur = 64, .rlim_max = RLIM_INFINITY};
    struct logdir *logdir = open_and_save(1, 6);

    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    set_step(7);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_not_equal(save_checkpoint(logdir, model, &facts), OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(strstr(error_message(), "model.ckpt-7.safetensors"));
    assert_int_equal(logdir_newest_step(logdir), 6);
    assert_false(is_there("model.ckpt-7.safetensors"));
    assert_newest(6);
    save(logdir, 7); /* and once there is room, it is saved */
    logdir_close(logdir);
    assert_newest(7);
    assert_false(is_there("model.ckpt-2.safetensors"));
    assert_true(is_there("model.ckpt-3.safetensors"));
}

static void save_while(struct logdir *logdir, int64_t step, int fails)
{
    set_step(step);
    was_named = was_saved = false;
    failing = fails;
    assert_int_equal(save_checkpoint(logdir, model, &facts), ERROR_IO);
    failing = NOTHING;
    const char *file = fails == THE_FILES_FOLDERS_SYNC ? "/model.ckpt-" : "/checkpoint";
    assert_non_null(strstr(error_message(), file));
}

/* The new file is there when the state file fails: it goes, and nothing else does. */
static void test_a_state_file_that_fails_undoes_the_save(void **state)
{
    struct logdir *logdir = open_and_save(1, 6);

    (void)state;
    for (int fails = ITS_RENAME; fails <= THE_FILES_FOLDERS_SYNC; fails += 2) {
        save_while(logdir, 7, fails);
        assert_non_null(strstr(error_message(), "model.ckpt-7.safetensors was removed again: "));
        assert_int_equal(logdir_newest_step(logdir), 6);
        assert_content("checkpoint", state_text(2, 6));
        assert_files(2, 6);
    }
    save(logdir, 7);
    assert_content("checkpoint", state_text(3, 7));
    assert_files(3, 7);
    logdir_close(logdir);
}

/* Nor does a training's first save, before there is a state file, leave one to go on from. */
static void test_a_first_save_that_fails_leaves_none(void **state)
{
    struct logdir *logdir = NULL;
    struct checkpoint *checkpoint = NULL;

    (void)state;
    assert_ok(logdir_open(folder, 0, &logdir));
    save_while(logdir, 0, ITS_RENAME);
    assert_non_null(strstr(error_message(), "model.ckpt-0.safetensors was removed again: "));
    assert_false(is_there("model.ckpt-0.safetensors"));
    assert_newest(-1);
    save(logdir, 1);
    assert_content("checkpoint", state_text(1, 1));
    save(logdir, 2);
    logdir_close(logdir);
    assert_int_equal(unlink(in_folder("checkpoint")), 0);
    assert_ok(logdir_open(folder, 0, &logdir));
    assert_ok(logdir_newest(logdir, &checkpoint));
    checkpoint_close(checkpoint);
    save_while(logdir, 2, ITS_RENAME); /* taken without being named: it stays */
    assert_files(1, 2);
    save_while(logdir, 3, ITS_RENAME);
    assert_files(1, 2);
    save(logdir, 3);
    assert_content("checkpoint", state_text(1, 3));
    assert_files(1, 3);
    logdir_close(logdir);
}

/* What the state file names stays, whatever failed: of a step that is saved again there is only the
 * one file, and a name that may or may not outlast power loss is there as long as the power is. */
static void test_a_save_that_fails_never_takes_what_is_named(void **state)
{
    struct logdir *logdir = open_and_save(1, 5);

    (void)state;
    save_while(logdir, 5, ITS_RENAME);
    save_while(logdir, 5, THE_FILES_FOLDERS_SYNC);
    assert_content("checkpoint", state_text(1, 5));
    assert_files(1, 5);
    save_while(logdir, 6, ITS_FOLDERS_SYNC);
    assert_content("checkpoint", state_text(1, 6));
    assert_files(1, 6);
    logdir_close(logdir);
    assert_newest(6);
}

/* A state file that cannot be read may name anything: nothing goes. */
static void test_a_save_that_fails_beside_a_state_file_that_nobody_can_read(void **state)
{
    struct logdir *logdir = open_and_save(1, 2);

    (void)state;
    put("checkpoint", "rubbish\n");
    save_while(logdir, 3, ITS_RENAME);
    assert_files(1, 3);
    put("checkpoint", state_text(1, 2)); /* it was the disk: nothing is forgotten either */
    save(logdir, 4);
    assert_content("checkpoint", state_text(1, 4));
    assert_files(1, 4);
    logdir_close(logdir);
}

static void mount_at_run(const char *disk)
{
    unlink(in_folder("run"));
    assert_int_equal(symlink(disk, in_folder("run")), 0);
}

static void unmount(void)
{
    mount_at_run("/proc");
}

/* There is another disk while a checkpoint is written: the list stays that of the own one. */
static void test_a_disk_that_is_unmounted_meanwhile_keeps_its_list(void **state)
{
    struct logdir *logdir = NULL;

    (void)state;
    assert_int_equal(mkdir(in_folder("disk"), 0700), 0);
    mount_at_run("disk");
    assert_ok(logdir_open(in_folder("run"), 0, &logdir));
    save(logdir, 1);
    save(logdir, 2);
    set_step(3);
    at_rename = unmount;
    assert_int_not_equal(save_checkpoint(logdir, model, &facts), OK);
    assert_null(at_rename);
    assert_fails(save_checkpoint(logdir, model, &facts), ERROR_IO, "is its disk mounted?");
    mount_at_run("disk");
    save(logdir, 3);
    logdir_close(logdir);
    assert_content("disk/checkpoint", state_text(1, 3));
}

/* Who waits for the end of a training asks often: each checkpoint is read once, whole or damaged. */
static void test_who_asks_whether_it_is_over_reads_each_checkpoint_once(void **state)
{
    uint64_t seen = 0, fresh = 0;
    (void)state;
    opened = 0;
    assert_false(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    assert_int_equal(opened, 0);
    struct logdir *logdir = open_and_save(1, 6);
    for (int times = 0; times < 3; times++)
        assert_false(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    assert_int_equal(opened, 1);
    assert_true(logdir_is_trained(folder, 6, LOGDIR_ENDED, &fresh));
    save(logdir, 7);
    for (int times = 0; times < 2; times++)
        assert_true(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    save(logdir, 8);
    logdir_close(logdir);
    put("model.ckpt-8.safetensors", "rubbish");
    opened = 0;
    assert_false(logdir_is_trained(folder, 8, LOGDIR_ENDED, &seen));
    assert_true(opened > 0);
    opened = 0;
    assert_false(logdir_is_trained(folder, 8, LOGDIR_ENDED, &seen));
    assert_int_equal(opened, 0);
}

/* Who asks for each save again, also of the same step: the same checkpoint may be saved as the last
 * one of its stream. */
static void test_a_step_that_is_saved_again_is_read_again(void **state)
{
    uint64_t seen = 0;
    (void)state;
    struct logdir *logdir = open_and_save(1, 1);
    assert_false(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    facts.position.ended = true;
    save(logdir, 1);
    facts.position.ended = false;
    assert_false(logdir_is_trained(folder, 7, LOGDIR_LAST_STEP, &seen));
    assert_true(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    assert_true(logdir_is_trained(folder, 1, LOGDIR_LAST_STEP, &seen));
    logdir_close(logdir);
}

/* By who asks every half second. */
static void test_a_missing_state_file_is_told_once(void **state)
{
    static const char told[] = "has the largest step";
    uint64_t seen = 0;
    size_t count = 0;
    char path[300], line[1000];
    (void)state;
    logdir_close(open_and_save(1, 1));
    snprintf(path, sizeof(path), "%s/checkpoint", folder);
    assert_int_equal(unlink(path), 0);
    log_set_level(LOG_WARNING);
    FILE *log = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_true(log && before >= 0 && dup2(fileno(log), STDERR_FILENO) >= 0);
    for (int times = 0; times < 10; times++)
        assert_false(logdir_is_trained(folder, 7, LOGDIR_ENDED, &seen));
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    log_set_level(LOG_ERROR);
    rewind(log);
    while (fgets(line, sizeof(line), log))
        count += strstr(line, told) != NULL;
    fclose(log);
    assert_int_equal(count, 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    TEST(test_five_are_kept_and_the_newest_is_named),
    TEST(test_a_new_folder_has_none),
    TEST(test_a_step_that_is_saved_again_is_read_again),
    TEST(test_a_missing_state_file_is_told_once),
    TEST(test_the_list_goes_on_after_a_restart),
    TEST(test_saving_a_step_again_lists_it_once),
    TEST(test_a_second_trainer_is_refused),
    TEST(test_a_holder_elsewhere_is_waited_for),
    TEST(test_a_machine_of_the_same_name_is_another),
    TEST(test_a_lock_ends_with_its_process),
    TEST(test_a_folder_that_was_taken_over_is_left_alone),
    TEST(test_what_an_interrupted_save_left_is_removed),
    TEST(test_a_removal_that_was_cut_off_is_finished_by_the_next_run),
    TEST(test_a_removal_that_fails_is_done_by_a_later_save),
    TEST(test_what_is_gone_on_from_is_never_removed),
    TEST(test_files_of_other_names_are_never_removed),
    TEST(test_without_the_state_file_the_largest_step_counts),
    TEST(test_without_the_state_file_others_count_too),
    TEST(test_who_looks_keeps_up_with_the_trainer),
    TEST(test_missing_files_are_passed_over),
    TEST(test_a_damaged_newest_is_named_with_the_way_back),
    TEST(test_a_person_may_name_an_older_one),
    TEST(test_what_nothing_names_and_training_has_passed_is_removed),
    TEST(test_nothing_is_removed_that_a_person_may_have_meant),
    TEST(test_a_malformed_state_file_is_refused),
    TEST(test_a_list_without_an_older_one),
    TEST(test_names_with_quotes_read_back),
    TEST(test_a_save_that_fails_changes_nothing),
    TEST(test_a_state_file_that_fails_undoes_the_save),
    TEST(test_a_first_save_that_fails_leaves_none),
    TEST(test_a_save_that_fails_never_takes_what_is_named),
    TEST(test_a_save_that_fails_beside_a_state_file_that_nobody_can_read),
    TEST(test_a_disk_that_is_unmounted_meanwhile_keeps_its_list),
    TEST(test_who_asks_whether_it_is_over_reads_each_checkpoint_once),
};

UNIT_MAIN(tests)
