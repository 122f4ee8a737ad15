/* SPDX-License-Identifier: MIT */
/* Covers trainer/cluster/cluster: with cluster_builder and cluster_parse. */
#include "tests/unit/cluster_unit.h"

#include "trainer/cluster/cluster_builder.h"
#include "trainer/cluster/cluster_parse.h"

/* ---- addresses ---------------------------------------------------------- */

static enum error add(struct cluster_builder *builder, const char *address)
{
    cluster_init(&builder->cluster);
    builder->capacity = 0;
    return cluster_builder_add(builder, "TF_CONFIG", CLUSTER_PS, 0, address);
}

static void test_addresses_are_read_and_written(void **state)
{
    static const char *const addresses[] = {
        "a:1",
        "ps-0.job.svc.cluster.local:2222",
        "10.0.0.7:65535",
        "[::1]:2222",
        "[fd00::7]:1",
        "[fe80::1%eth0.7]:1",
        "under_score:1",
        "[::ffff:10.0.0.7]:9",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        struct cluster_builder builder;
        char shown[CLUSTER_ADDRESS_BYTES];
        assert_ok(add(&builder, addresses[i]));
        assert_string_equal(cluster_task_address(&builder.cluster.tasks[0], shown), addresses[i]);
        assert_null(strchr(builder.cluster.tasks[0].host, '['));
        cluster_release(&builder.cluster);
    }
}

static void test_addresses_that_are_none(void **state)
{
    static const char *const hosts[] = {
        "",
        "a",
        ":1",
        "a b:1",
        "grpc://a:1",
        "::1",
        "::1:2222",
        "[]:1",
        "[::1]",
        "[a]:1",
        "[::1:1",
        "a/b:1",
        "\xc3\xa4:1",
        "[fe80::1%]:1",
        "[fe80::1%a ]:1",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:a]:1",
        "[::1%a b]:1",
        "[1:2:3:4:5:6:7:8:9]:1",
        "user@a:1",
    };
    static const char *const ports[] = {"a:",   "a:0",  "a:65536", "a:-1",
                                        "a:+1", "a: 1", "a:1 ",    "[::1]:x"};
    struct cluster_builder builder;
    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        assert_fails(add(&builder, hosts[i]), ERROR_USAGE,
                     "must be HOST:PORT (ps0:2222, 10.0.0.7:2222, [fd00::7]:2222)");
        cluster_release(&builder.cluster);
    }
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        assert_fails(add(&builder, ports[i]), ERROR_USAGE,
                     "its port must be a number from 1 to 65535");
        cluster_release(&builder.cluster);
    }
}

static void test_a_host_has_at_most_253_characters(void **state)
{
    char address[300];
    struct cluster_builder builder;
    (void)state;
    memset(address, 'a', sizeof(address));
    memcpy(address + CLUSTER_HOST_LIMIT, ":65535", sizeof(":65535"));
    char shown[CLUSTER_ADDRESS_BYTES];
    assert_ok(add(&builder, address));
    assert_string_equal(cluster_task_address(&builder.cluster.tasks[0], shown), address);
    cluster_release(&builder.cluster);
    memset(address, 'a', sizeof(address));
    memcpy(address, "[fe80::1%", 9); /* and so has an address with its interface */
    strcpy(address + 1 + CLUSTER_HOST_LIMIT, "]:65535");
    assert_ok(add(&builder, address));
    assert_string_equal(cluster_task_address(&builder.cluster.tasks[0], shown), address);
    cluster_release(&builder.cluster);
    strcpy(address + 1 + CLUSTER_HOST_LIMIT, "a]:65535");
    assert_fails(add(&builder, address), ERROR_USAGE, "must be HOST:PORT");
    cluster_release(&builder.cluster);
    memset(address, 'a', CLUSTER_HOST_LIMIT);
    strcpy(address + CLUSTER_HOST_LIMIT, ":65535");
    memmove(address + 1, address, sizeof(address) - 1);
    assert_fails(add(&builder, address), ERROR_USAGE, "must be HOST:PORT");
    cluster_release(&builder.cluster);
}

/* ---- lists -------------------------------------------------------------- */

static void test_a_cluster_has_at_most_65536_tasks(void **state)
{
    struct cluster_builder builder = {.capacity = 0};
    char address[64];
    (void)state;
    cluster_init(&builder.cluster);
    builder.cluster.source = "TF_CONFIG";
    for (int64_t i = CLUSTER_TASKS_LIMIT - 1; i >= 0; i--) {
        snprintf(address, sizeof(address), "w%" PRId64 ":2222", i);
        assert_ok(cluster_builder_add(&builder, "TF_CONFIG", CLUSTER_WORKER, i, address));
    }
    assert_fails(cluster_builder_add(&builder, "TF_CONFIG", CLUSTER_PS, 0, "p:1"), ERROR_USAGE,
                 "more than 65536 tasks in TF_CONFIG");
    assert_ok(cluster_builder_finish(&builder));
    assert_int_equal(cluster_trainer_count(&builder.cluster), CLUSTER_TASKS_LIMIT);
    assert_string_equal(cluster_task(&builder.cluster, CLUSTER_WORKER, 65535)->host, "w65535");
    assert_null(cluster_task(&builder.cluster, CLUSTER_WORKER, 65536));
    assert_null(cluster_task(&builder.cluster, CLUSTER_PS, 0));
    cluster_release(&builder.cluster);
}

static const struct cluster_flags no_flags;

static void test_a_server_shares_its_address_with_nobody(void **state)
{
    static const struct {
        struct cluster_flags flags;
        const char *message;
    } cases[] = {
        {{"p:1,p:2,p:1", "a:1", "ps", 0, true},
         "ps 0 and ps 2 have the same address in --ps-hosts and --worker-hosts, p:1"},
        {{"p:1,a:1", "a:1,a:2,a:1", "ps", 0, true},
         ", a:1; a parameter server needs one of its own"},
        {{"a:1", "b:1,a:1", "worker", 0, true},
         "have the same address in --ps-hosts and --worker-hosts, a:1"},
        {{"a:1", "a:1", "worker", 0, true},
         "have the same address in --ps-hosts and --worker-hosts, a:1"},
        {{NULL, "a:1,b:1,a:1", "worker", 0, true}, "worker 0 and worker 2 have the same address"},
        {{NULL, "a:1,b:1,a:1", "worker", 2, true}, "worker 0 and worker 2 have the same address"},
    };
    static const struct cluster_flags accepted[] = {
        {"p:1", "a:1,a:1,a:1", "worker", 1, true},
        {NULL, "a:1,b:1,b:1", "worker", 2, true},
        {"p:1,p:2,q:1", "a:1", "ps", 2, true},
    };
    struct cluster cluster;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(cluster_parse(NULL, &cases[i].flags, &cluster), ERROR_USAGE, cases[i].message);
    for (size_t i = 0; i < sizeof(accepted) / sizeof(accepted[0]); i++) {
        assert_ok(cluster_parse(NULL, &accepted[i], &cluster));
        cluster_release(&cluster);
    }
}

/* ---- two descriptions --------------------------------------------------- */

#define JSON "{\"cluster\":{\"ps\":[\"p:1\"],\"worker\":[\"a:1\",\"b:1\"]},\"task\":"
#define SHOWN "worker 1: worker a:1 b:1; ps p:1; trainers 2, server p:1"

static void test_either_describes_the_cluster(void **state)
{
    static const struct cluster_flags flags = {"p:1", "a:1,b:1", "worker", 1, true};
    static const struct {
        const char *tf_config;
        const struct cluster_flags *flags;
        const char *shown, *source;
    } cases[] = {
        {NULL, &no_flags, "worker 0 chief alone: trainers 1", NULL},
        {JSON "{\"type\":\"worker\",\"index\":1}}", &no_flags, SHOWN, "TF_CONFIG"},
        {NULL, &flags, SHOWN, "--ps-hosts and --worker-hosts"},
        {"{\"environment\":\"cloud\"}", &flags, SHOWN, "--ps-hosts and --worker-hosts"},
        {JSON "{\"type\":\"worker\",\"index\":1}}", &flags, SHOWN, "--ps-hosts and --worker-hosts"},
    };
    struct cluster cluster;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_ok(cluster_parse(cases[i].tf_config, cases[i].flags, &cluster));
        assert_string_equal(cluster_show(&cluster), cases[i].shown);
        if (cases[i].source)
            assert_string_equal(cluster.source, cases[i].source);
        else
            assert_null(cluster.source);
        cluster_release(&cluster);
    }
}

static void test_two_that_differ_are_refused(void **state)
{
    static const char tf_config[] = JSON "{\"type\":\"worker\",\"index\":1}}";
    static const struct {
        struct cluster_flags flags;
        const char *message;
    } cases[] = {
        {{"p:1", "a:1,b:1", "worker", 0, true},
         "TF_CONFIG makes this process worker 1, --job-name and --task-index make it worker 0"},
        {{"p:1", "a:1,b:1", "ps", 0, true}, "make it ps 0"},
        {{"p:1", "a:1,c:1", "worker", 1, true},
         "TF_CONFIG has worker 1 at b:1, the flags have worker 1 at c:1"},
        {{"p:1", "c:1,b:1", "worker", 1, true},
         "TF_CONFIG has worker 0 at a:1, the flags have worker 0 at c:1"},
        {{"p:1", "a:1,b:2", "worker", 1, true}, "the flags have worker 1 at b:2"},
        {{"p:1", "a:1,b:1,c:1", "worker", 1, true},
         "TF_CONFIG has ps 0 at p:1, the flags have worker 2 at c:1"},
        {{"p:1,p:2", "a:1,b:1", "worker", 1, true},
         "TF_CONFIG has no further task, the flags have ps 1 at p:2"},
        {{NULL, "a:1,b:1", "worker", 1, true},
         "TF_CONFIG and --ps-hosts and --worker-hosts list different clusters: TF_CONFIG has ps 0 "
         "at p:1, the flags have no further task"},
        {{"p:1", NULL, NULL, 0, false}, "Must specify an explicit `job_name`"},
    };
    struct cluster cluster;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(cluster_parse(tf_config, &cases[i].flags, &cluster), ERROR_USAGE,
                     cases[i].message);
    assert_fails(cluster_parse("{", &no_flags, &cluster), ERROR_USAGE, "TF_CONFIG");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_addresses_are_read_and_written),
    cmocka_unit_test(test_addresses_that_are_none),
    cmocka_unit_test(test_a_host_has_at_most_253_characters),
    cmocka_unit_test(test_a_cluster_has_at_most_65536_tasks),
    cmocka_unit_test(test_a_server_shares_its_address_with_nobody),
    cmocka_unit_test(test_either_describes_the_cluster),
    cmocka_unit_test(test_two_that_differ_are_refused),
};

UNIT_MAIN(tests)
