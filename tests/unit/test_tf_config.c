/* SPDX-License-Identifier: MIT */
/* Covers trainer/cluster/tf_config. */
#include "tests/unit/cluster_unit.h"

#include "common/log.h"
#include "trainer/cluster/tf_config.h"

struct accepted {
    const char *text, *shown;
};

static void assert_accepted(const struct accepted *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cluster cluster;
        enum error error = tf_config_parse(cases[i].text, &cluster);
        if (error)
            fail_msg("%s: %s", cases[i].text, error_message());
        assert_string_equal(cluster_show(&cluster), cases[i].shown);
        assert_true((cluster.source != NULL) == (cluster.task_count > 0));
        cluster_release(&cluster);
    }
}

struct refused {
    const char *text, *message;
};

static void assert_refused(const struct refused *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct cluster cluster;
        assert_fails(tf_config_parse(cases[i].text, &cluster), ERROR_USAGE, cases[i].message);
    }
}

#define ACCEPTED(cases) assert_accepted(cases, sizeof(cases) / sizeof((cases)[0]))
#define REFUSED(cases) assert_refused(cases, sizeof(cases) / sizeof((cases)[0]))

#define TASK(type, index) "\"task\":{\"type\":\"" type "\",\"index\":" index "}}"
#define ALONE "worker 0 chief alone: trainers 1"

static void test_no_cluster_is_one_process(void **state)
{
    static const struct accepted cases[] = {
        {NULL, ALONE},
        {"", ALONE},
        {"{}", ALONE},
        {"{\"environment\":\"cloud\",\"model_dir\":\"x\",\"service\":{}}", ALONE},
        {"{\"cluster\":null,\"task\":null,\"service\":null}", ALONE},
        {"{\"task\":{\"type\":null,\"index\":null}}", ALONE},
        {"{\"cluster\":{}," TASK("worker", "0"), ALONE},
        {"{" TASK("worker", "\"0\""), ALONE},
        {"{\"cluster\":{\"worker\":[],\"ps\":{}}}", ALONE},
    };
    (void)state;
    ACCEPTED(cases);
}

#define FOUR "{\"cluster\":{\"ps\":[\"p:1\",\"p:2\"],\"worker\":[\"a:1\",\"b:1\"],"
#define CHIEF FOUR "\"chief\":[\"c:1\"]},"
#define MASTER FOUR "\"master\":[\"c:1\"]},"

static void test_each_task_of_a_cluster_sees_it(void **state)
{
    static const char tail[] = " chief c:1; worker a:1 b:1; ps p:1 p:2; trainers 3, server p:1 p:2";
    static const struct {
        const char *text, *own;
    } cases[] = {
        {CHIEF TASK("chief", "0"), "chief 0 chief:"},   {CHIEF TASK("worker", "0"), "worker 0:"},
        {CHIEF TASK("worker", "1"), "worker 1:"},       {CHIEF TASK("ps", "0"), "ps 0 serves:"},
        {CHIEF TASK("ps", "\"1\""), "ps 1 serves:"},    {CHIEF TASK("ps", "1.0"), "ps 1 serves:"},
        {CHIEF TASK("evaluator", "0"), "evaluator 0:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[256];
        snprintf(shown, sizeof(shown), "%s%s", cases[i].own, tail);
        assert_accepted(&(struct accepted){cases[i].text, shown}, 1);
    }
}

static void test_the_classic_layouts(void **state)
{
    static const struct accepted cases[] = {
        /* D0: master, ps, workers */
        {MASTER TASK("master", "0"),
         "master 0 chief: master c:1; worker a:1 b:1; ps p:1 p:2; trainers 3, server p:1 p:2"},
        /* as tf.train.Server takes it: no chief, worker 0 does its part */
        {FOUR "\"evaluator\":[]}," TASK("worker", "0"),
         "worker 0 chief: worker a:1 b:1; ps p:1 p:2; trainers 2, server p:1 p:2"},
        {FOUR "\"evaluator\":[]}," TASK("worker", "1"),
         "worker 1: worker a:1 b:1; ps p:1 p:2; trainers 2, server p:1 p:2"},
        /* D4: no ps, the chief serves */
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]}," TASK("worker", "0"),
         "worker 0 chief serves: worker a:1 b:1; trainers 2, server a:1"},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]}," TASK("worker", "1"),
         "worker 1: worker a:1 b:1; trainers 2, server a:1"},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"],\"chief\":[\"c:1\"]}," TASK("chief", "0"),
         "chief 0 chief serves: chief c:1; worker a:1 b:1; trainers 3, server c:1"},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"],\"chief\":[\"c:1\"]}," TASK("worker", "0"),
         "worker 0: chief c:1; worker a:1 b:1; trainers 3, server c:1"},
        /* one task is a process alone, with or without an evaluator beside it */
        {"{\"cluster\":{\"chief\":[\"a:1\"]}," TASK("chief", "0"),
         "chief 0 chief alone: chief a:1; trainers 1"},
        {"{\"cluster\":{\"ps\":[],\"worker\":[\"a:1\"]}," TASK("worker", "0"),
         "worker 0 chief alone: worker a:1; trainers 1"},
        {"{\"cluster\":{\"chief\":[\"a:1\"],\"evaluator\":[\"e:1\"]}," TASK("chief", "0"),
         "chief 0 chief alone: chief a:1; evaluator e:1; trainers 1"},
        {"{\"cluster\":{\"chief\":[\"a:1\"],\"evaluator\":[\"e:1\"]}," TASK("evaluator", "0"),
         "evaluator 0: chief a:1; evaluator e:1; trainers 1, server a:1"},
        /* workers may stand behind one service; only servers listen */
        {"{\"cluster\":{\"worker\":[\"w:1\",\"w:1\"],\"ps\":[\"p:1\"]}," TASK("worker", "1"),
         "worker 1: worker w:1 w:1; ps p:1; trainers 2, server p:1"},
    };
    (void)state;
    ACCEPTED(cases);
}

static void test_sparse_clusters(void **state)
{
    static const struct accepted cases[] = {
        /* what an operator with enableDynamicWorker writes for a worker and for a ps */
        {"{\"cluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":[\"p:1\",\"p:2\"]}," TASK("worker", "3"),
         "worker 3 sparse: worker 3=a:1; ps p:1 p:2; trainers 1, server p:1 p:2"},
        {"{\"cluster\":{\"worker\":{\"0\":\"a:1\"},\"ps\":[\"p:1\"]}," TASK("worker", "0"),
         "worker 0 chief sparse: worker a:1; ps p:1; trainers 1, server p:1"},
        {"{\"sparseCluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":[\"p:1\"]}," TASK("worker", "3"),
         "worker 3 sparse: worker 3=a:1; ps p:1; trainers 1, server p:1"},
        {"{\"cluster\":{\"worker\":{},\"ps\":[\"p:1\"]}," TASK("ps", "1"),
         "ps 1 serves sparse lone: ps 1=p:1; trainers 0, server p:1"},
        {"{\"cluster\":{\"worker\":{},\"ps\":[\"p:1\"]}," TASK("ps", "0"),
         "ps 0 serves sparse lone: ps p:1; trainers 0, server p:1"},
        {"{\"cluster\":{\"worker\":{},\"ps\":{\"1\":\"p:1\"}}," TASK("ps", "1"),
         "ps 1 serves sparse lone: ps 1=p:1; trainers 0, server p:1"},
        {"{\"cluster\":{\"worker\":{},\"ps\":[\"p:1\"]}," TASK("worker", "7"),
         "worker 7 sparse: ps p:1; trainers 0, server p:1"},
        /* a map sorts by number */
        {"{\"cluster\":{\"worker\":{\"10\":\"k:1\",\"9\":\"j:1\"},\"ps\":{\"1\":\"p:2\",\"0\":\"p:"
         "1\"}}," TASK("worker", "9"),
         "worker 9 sparse: worker 9=j:1 10=k:1; ps p:1 p:2; trainers 2, server p:1 p:2"},
        /* #1763: what the chief gets there */
        {"{\"cluster\":{\"worker\":{},\"ps\":[]}," TASK("chief", "0"),
         "chief 0 chief alone: trainers 1"},
        {"{\"sparseCluster\":{\"worker\":{},\"ps\":[]}," TASK("master", "0"),
         "master 0 chief alone: trainers 1"},
    };
    static const struct refused refused[] = {
        {"{\"cluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":[]}," TASK("worker", "3"),
         "there is neither a ps nor worker 0, which would serve in its place, in TF_CONFIG: worker "
         "3 has nobody to train with"},
        {"{\"cluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":{\"1\":\"p:1\"}}," TASK("worker", "3"),
         "there is a ps 1 but no ps 0 in TF_CONFIG"},
        {"{\"cluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":{\"0\":\"p:1\",\"2\":\"p:2\"}}," TASK(
             "worker", "3"),
         "there is a ps 2 but no ps 1 in TF_CONFIG"},
        {"{\"cluster\":{\"worker\":{},\"ps\":{\"1\":\"p:1\"}}," TASK("ps", "0"),
         "0 is not a valid task_id for task_type ps in the cluster_spec: those in TF_CONFIG go "
         "from 1 to 1"},
        {"{\"cluster\":{\"worker\":{\"3\":\"a:1\"},\"ps\":[\"p:1\"]}," TASK("worker", "2"),
         "2 is not a valid task_id for task_type worker in the cluster_spec"},
        {"{\"cluster\":{\"worker\":{\"1\":\"a:1\",\"01\":\"b:1\"}}," TASK("worker", "1"),
         "worker 1 is twice in TF_CONFIG"},
        {"{\"cluster\":{\"worker\":{\"first\":\"a:1\"}}," TASK("worker", "1"),
         "job worker of the cluster has the task \"first\", must be a number from 0 to 2147483647"},
        {"{\"cluster\":{\"worker\":{\"2147483648\":\"a:1\"}}," TASK("worker", "1"),
         "has the task \"2147483648\""},
        {"{\"cluster\":{\"worker\":{}}," TASK("ps", "0"),
         "If \"cluster\" is not set in TF_CONFIG, task type must be WORKER, not \"ps\""},
        {"{\"cluster\":{}," TASK("chief", "0"),
         "If \"cluster\" is not set in TF_CONFIG, task type must be WORKER, not \"chief\""},
    };
    (void)state;
    log_set_level(LOG_ERROR);
    ACCEPTED(cases);
    log_set_level(LOG_INFO);
    REFUSED(refused);
}

static void test_the_original_messages(void **state)
{
    static const struct refused cases[] = {
        {"{" TASK("ps", "0"),
         "If \"cluster\" is not set in TF_CONFIG, task type must be WORKER, not \"ps\""},
        {"{\"task\":{\"index\":1}}",
         "If \"cluster\" is not set in TF_CONFIG, task index must be 0, not 1"},
        {"{\"cluster\":{\"ps\":[\"a:1\"]}," TASK("ps", "0"),
         "If \"cluster\" is set in TF_CONFIG, it must have one \"chief\" node, or a worker"},
        {"{\"cluster\":{\"evaluator\":[\"a:1\"]}," TASK("evaluator", "0"),
         "it must have one \"chief\" node"},
        {"{\"cluster\":{\"chief\":[\"a:1\",\"b:1\"]}," TASK("chief", "0"),
         "The \"cluster\" in TF_CONFIG must have only one \"chief\" node, not 2"},
        {"{\"cluster\":{\"master\":[\"a:1\",\"b:1\"]}," TASK("master", "0"),
         "The \"cluster\" in TF_CONFIG must have only one \"master\" node, not 2"},
        {FOUR "\"chief\":[\"c:1\"]}}", "If \"cluster\" is set in TF_CONFIG, task type must be set"},
        {FOUR "\"chief\":[\"c:1\"]}," TASK("", "0"), "task type must be set"},
        {FOUR "\"chief\":[\"c:1\"]},\"task\":{\"type\":\"ps\"}}",
         "If \"cluster\" is set in TF_CONFIG, task index must be set"},
        {CHIEF TASK("ps", "-1"),
         "Task index must be non-negative number, at most 2147483647; in TF_CONFIG it is -1"},
        {CHIEF TASK("ps", "0.5"),
         "Task index must be non-negative number, at most 2147483647; in TF_CONFIG it is 0.5"},
        {CHIEF TASK("ps", "2147483648"), "in TF_CONFIG it is 2147483648"},
        {CHIEF TASK("ps", "\"x\""), "in TF_CONFIG it is x"},
        {CHIEF TASK("ps", "[]"), "in TF_CONFIG it is an array"},
        {CHIEF TASK("chef", "0"), "\"chef\" is not a valid task_type in the cluster_spec"},
        {CHIEF TASK("master", "0"), "\"master\" is not a valid task_type in the cluster_spec"},
        {MASTER TASK("chief", "0"), "\"chief\" is not a valid task_type in the cluster_spec"},
        {"{\"cluster\":{\"worker\":[\"a:1\",\"b:1\"]}," TASK("ps", "0"),
         "ps is not a valid task_type in the cluster_spec: there is no ps in TF_CONFIG"},
        {CHIEF TASK("worker", "2"), "2 is not a valid task_id for task_type worker in the "
                                    "cluster_spec: those in TF_CONFIG go from 0 to 1"},
        {"{\"cluster\":{\"chief\":[\"c:1\"],\"worker\":[\"a:1\"],\"ps\":[\"p:1\",\"p:2\"]}," TASK(
             "worker", "1"),
         "those in TF_CONFIG go from 0 to 0"},
        {FOUR "\"chief\":[\"c:1\"],\"master\":[\"m:1\"]}," TASK("ps", "0"),
         "If `master` node exists in `cluster`, job `chief` is not supported"},
        {MASTER TASK("evaluator", "0"),
         "If `master` node exists in `cluster`, task_type `evaluator` is not supported"},
        {CHIEF TASK("evaluator", "1"),
         "there can only be one `evaluator` task (with task id 0), not 1"},
        {"{\"service\":[]}", "If \"service\" is set in TF_CONFIG, it must be a dict, not an array"},
    };
    (void)state;
    REFUSED(cases);
}

static void test_what_is_no_tf_config(void **state)
{
    static const struct refused cases[] = {
        {"worker", "TF_CONFIG"},
        {"[]", "TF_CONFIG is an array, must be {\"cluster\":"},
        {"null", "TF_CONFIG is null"},
        {"{\"cluster\":[]}",
         "If \"cluster\" is set in TF_CONFIG, it must be an object, not an array"},
        {"{\"sparseCluster\":3}", "\"sparseCluster\""},
        {"{\"task\":3}", "If \"task\" is set in TF_CONFIG, it must be an object, not a number"},
        {"{\"task\":{\"type\":3}}",
         "If \"type\" is set in TF_CONFIG, it must be a text, not a number"},
        {"{\"cluster\":{\"worker\":\"a:1\"}}",
         "job worker of the cluster is a text, must be a list [\"HOST:PORT\",...] or a map "
         "{\"0\":\"HOST:PORT\",...}"},
        {"{\"cluster\":{\"worker\":[\"a:1\",7]}," TASK("worker", "0"),
         "worker 1 of the cluster is a number, must be a text \"HOST:PORT\""},
        {"{\"cluster\":{\"wroker\":[\"a:1\"]}," TASK("worker", "0"),
         "the cluster has a job \"wroker\" (did you mean worker?); jobs are chief (or master), "
         "worker, ps and evaluator"},
        {"{\"cluster\":{\"tensorboard\":[\"a:1\"]}," TASK("worker", "0"),
         "the cluster has a job \"tensorboard\"; jobs are"},
    };
    (void)state;
    REFUSED(cases);
}

static void test_what_is_printed_is_read_back(void **state)
{
    struct cluster cluster, back;
    struct buffer out = BUFFER_INIT(4096);
    (void)state;
    assert_ok(tf_config_parse(MASTER TASK("ps", "1"), &cluster));
    assert_ok(tf_config_print(&cluster, CLUSTER_CHIEF, 0, &out));
    assert_string_equal(
        out.data,
        "{\"cluster\":{\"master\":[\"c:1\"],\"worker\":[\"a:1\",\"b:1\"],\"ps\":[\"p:1\",\"p:2\"]},"
        "\"task\":{\"type\":\"master\",\"index\":0},\"environment\":\"cloud\"}");
    assert_ok(tf_config_parse(out.data, &back));
    assert_string_equal(
        cluster_show(&back),
        "master 0 chief: master c:1; worker a:1 b:1; ps p:1 p:2; trainers 3, server p:1 p:2");
    cluster_release(&back);
    cluster_release(&cluster);
    buffer_release(&out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_no_cluster_is_one_process),
    cmocka_unit_test(test_each_task_of_a_cluster_sees_it),
    cmocka_unit_test(test_the_classic_layouts),
    cmocka_unit_test(test_sparse_clusters),
    cmocka_unit_test(test_the_original_messages),
    cmocka_unit_test(test_what_is_no_tf_config),
    cmocka_unit_test(test_what_is_printed_is_read_back),
};

UNIT_MAIN(tests)
