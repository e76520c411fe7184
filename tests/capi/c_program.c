/* A program in C, against the installed header and the library alone: trains
 * two passes over 1,000 examples and prints what it sees.
 *
 *   c_program CONFIG      CONFIG: JSON of ClientConfig
 */

#include <oarlock/oarlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM 3
#define BLOCK 250
#define TOTAL 1000

static oarlock_error error;

static void Check(oarlock_code code, const char* what) {
  if (code == OARLOCK_OK) return;
  printf("%s: code %d: %s\n", what, (int)code, error.message);
  exit(1);
}

/* Waits for the operation, copies its result, and forgets it. */
static void Finish(oarlock_operation operation, char* result, size_t capacity,
                   const char* what) {
  size_t size = 0;
  oarlock_code code;
  do {
    code = oarlock_wait(operation, 200, &error);
  } while (code == OARLOCK_NOT_DONE);
  Check(code, what);
  Check(oarlock_result(operation, result, capacity - 1, &size, &error), what);
  result[size] = '\0';
  Check(oarlock_operation_free(operation, &error), what);
}

static void FinishWithoutResult(oarlock_operation operation, const char* what) {
  oarlock_code code;
  do {
    code = oarlock_finish(operation, 200, &error);
  } while (code == OARLOCK_NOT_DONE);
  Check(code, what);
}

/* The number behind "name": in JSON, with or without quotes. */
static unsigned long long Number(const char* json, const char* name) {
  char quoted[64];
  const char* found;
  snprintf(quoted, sizeof quoted, "\"%s\":", name);
  found = strstr(json, quoted);
  if (found == NULL) return 0;
  found += strlen(quoted);
  while (*found == '"' || *found == ' ') ++found;
  return strtoull(found, NULL, 10);
}

int main(int argc, char** argv) {
  static char text[65536];
  oarlock_client client = 0;
  oarlock_operation operation = 0;
  uint32_t table = 0;
  int epoch;
  if (argc != 2) return 2;
  printf("version %s, interface %d\n", oarlock_version(),
         (int)oarlock_abi_version());
  Check(oarlock_client_create(argv[1], strlen(argv[1]), &client, &error),
        "create");
  {
    const char join[] = "{\"rank\": 0, \"world\": 1}";
    Check(oarlock_join_begin(client, join, sizeof join - 1, &operation, &error),
          "join");
    Finish(operation, text, sizeof text, "join");
    printf("run %llu of %llu workers\n", Number(text, "run"),
           Number(text, "num_workers"));
  }
  {
    const char config[] =
        "{\"name\": \"c\", \"mode\": \"ASYNC\", \"reduction\": \"MEAN\","
        " \"optimizer\": {\"learning_rate\": 1, \"sgd\": {}},"
        " \"sparse\": {\"dim\": 3, \"accessor\": \"PLAIN\","
        "              \"initializer\": {\"constant\": 0.5}}}";
    Check(oarlock_create_table_begin(client, config, sizeof config - 1,
                                     &operation, &error),
          "table");
    Finish(operation, text, sizeof text, "table");
    Check(oarlock_table_id("c", 1, &table, &error), "id");
    printf("table %s its id\n", Number(text, "id") == table ? "has" : "lacks");
  }
  for (epoch = 0; epoch < 2; ++epoch) {
    char lease[128];
    int parts = 0;
    snprintf(lease, sizeof lease,
             "{\"name\": \"train\", \"epoch\": %d, \"total\": %d,"
             " \"block\": %d}",
             epoch, TOTAL, BLOCK);
    for (;;) {
      uint64_t keys[BLOCK];
      int32_t inverse[BLOCK];
      float values[10 * DIM], gradients[10 * DIM], ones[BLOCK * DIM];
      oarlock_keys batch = 0;
      oarlock_step step = 0;
      oarlock_sparse_pull pull = {0};
      oarlock_sparse_push push = {0};
      size_t distinct = 0, i;
      unsigned long long number, begin;
      Check(
          oarlock_lease_begin(client, lease, strlen(lease), &operation, &error),
          "lease");
      Finish(operation, text, sizeof text, "lease");
      number = Number(text, "lease");
      if (number == 0) break;
      begin = Number(text, "begin");
      for (i = 0; i < BLOCK; ++i) keys[i] = (begin + i) % 10;
      Check(oarlock_keys_create(client, keys, BLOCK, &batch, &distinct, &error),
            "keys");
      if (distinct != 10) return 1;
      Check(oarlock_keys_read(batch, NULL, 0, inverse, BLOCK, &error), "read");
      if (inverse[0] != inverse[10] || inverse[0] == inverse[1]) return 1;
      pull.table = table;
      pull.keys = batch;
      pull.values = values;
      pull.num_values = 10 * DIM;
      Check(oarlock_pull_begin(client, &pull, 1, &operation, &error), "pull");
      Finish(operation, text, sizeof text, "pull");
      for (i = 0; i < BLOCK * DIM; ++i) ones[i] = 1;
      Check(oarlock_keys_sum(batch, ones, BLOCK, DIM, gradients, 10, &error),
            "sum");
      Check(oarlock_step_create(client, number, &step, &error), "step");
      push.table = table;
      push.keys = batch;
      push.gradients = gradients;
      push.num_gradients = 10 * DIM;
      Check(oarlock_step_add(step, &push, &error), "add");
      /* It was copied. */
      memset(gradients, 0x7f, sizeof gradients);
      Check(oarlock_step_push_begin(step, &operation, &error), "push");
      FinishWithoutResult(operation, "push");
      if (oarlock_wait(operation, 0, NULL) != OARLOCK_CLOSED) return 1;
      /* It was freed. */
      if (oarlock_step_free(step, NULL) != OARLOCK_CLOSED) return 1;
      Check(oarlock_keys_free(batch, &error), "free");
      ++parts;
    }
    printf("epoch %d: %d parts\n", epoch, parts);
  }
  {
    uint64_t key = 7;
    float values[DIM];
    oarlock_keys batch = 0;
    oarlock_sparse_pull pull = {0};
    size_t distinct = 0;
    Check(oarlock_keys_create(client, &key, 1, &batch, &distinct, &error),
          "keys");
    pull.table = table;
    pull.keys = batch;
    pull.values = values;
    pull.num_values = DIM;
    Check(oarlock_pull_begin(client, &pull, 1, &operation, &error), "pull");
    Finish(operation, text, sizeof text, "pull");
    printf("row 7: %g %g %g\n", values[0], values[1], values[2]);
  }
  {
    const char wrong[] = "{\"nmae\": \"c\"}";
    const oarlock_code code = oarlock_create_table_begin(
        client, wrong, sizeof wrong - 1, &operation, &error);
    printf("refused with code %d, %s a line\n", (int)code,
           strchr(error.message, '\n') == NULL ? "in" : "not in");
  }
  Check(oarlock_leave_begin(client, 1, NULL, 0, &operation, &error), "leave");
  Finish(operation, text, sizeof text, "leave");
  Check(oarlock_client_free(client, &error), "free");
  printf("closed: code %d\n", (int)oarlock_client_free(client, &error));
  return 0;
}
