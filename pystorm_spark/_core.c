/* The compiled core: the short ways of the runtime's hottest functions, once more in C.

   It has no state and no types of its own. Tuples, trees, routes, ports and buffers are the Python classes with
   `__slots__` of the runtime; `laid_out` notes where in an object each slot lies, and C reads and writes it there.
   `compiled` wraps a Python function: each call first tries the C version, which gives up before it has changed
   anything if the call is not one of the common ones, and then the Python function is called as if there were no C.
   So Python says what a function means, C is only a quicker way to the same end, and each function here names the one
   that it stands for.

   User threads may emit and ack. Between a look and the change that relies on it nothing may run Python code, which
   could hand the interpreter's lock to another thread: no allocation of a container (it may start the garbage
   collector), no dropped reference to anything but ints, no call. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define SHORT_TEXT 64 /* a key of so many characters is hashed in no time */

typedef unsigned long long Id; /* of a root or an edge: 64 bits */

/* Where the slots are. */

enum { TUPLE, TREE, TRAVELLING, ROOT, BRANCH, ROUTE, PORT, BUFFER, ACKS, OUTBOX, SHOP, BOLT, SPOUT, LEDGER, ENTRY,
       ROTATING, TASK, SOURCE, STATE, TAKEN_BACK, KINDS };

static const char *const kind_names[KINDS] = {
    "Tuple", "Tree", "Travelling", "Root", "Branch", "Route", "Port", "TupleBuffer", "AckBuffer", "Outbox", "Workshop",
    "BoltCollector", "SpoutCollector", "AckLedger", "AckEntry", "RotatingMap", "BoltTask",
    "SpoutTask", "KeyValueState", "TakenBack"};
static PyTypeObject *types[KINDS];

/* X(kind, name of the slot): the offset of slot `s` of kind `K` is `K_s`. */
#define SLOTS(X)                                                                                                       \
    X(TUPLE, values) X(TUPLE, _origin) X(TUPLE, _tree) X(TREE, open) X(TRAVELLING, edge) X(TRAVELLING, root_id)        \
    X(ROOT, bucket) X(ROOT, emitted_at) X(ROOT, message_id) X(ROOT, task)                                              \
    X(BRANCH, failed) X(BRANCH, home_task) X(BRANCH, outbox)                                                           \
    X(ROUTE, arity) X(ROUTE, emitted) X(ROUTE, hashes) X(ROUTE, key_at) X(ROUTE, keys) X(ROUTE, only)                  \
    X(ROUTE, origin) X(ROUTE, pick) X(ROUTE, ports) X(PORT, append) X(PORT, buffer) X(PORT, task_id)                   \
    X(BUFFER, counts) X(BUFFER, edges) X(BUFFER, homes) X(BUFFER, in_runs) X(BUFFER, roots) X(BUFFER, rows)            \
    X(BUFFER, run) X(ACKS, acked_roots) X(ACKS, acked_edges)                                                           \
    X(OUTBOX, _acks) X(OUTBOX, _edge_ids) X(OUTBOX, branches) X(SHOP, inside) X(SHOP, outbox) X(SHOP, thread)          \
    X(BOLT, _shop) X(BOLT, _task) X(BOLT, acked) X(BOLT, default) X(BOLT, held) X(BOLT, routes) X(BOLT, short_way)     \
    X(SPOUT, _plainly) X(SPOUT, _task) X(SPOUT, bucket) X(SPOUT, default) X(SPOUT, emits) X(SPOUT, now)                \
    X(SPOUT, routes) X(SPOUT, short_way)                                                                               \
    X(LEDGER, _entries) X(ENTRY, edges) X(ENTRY, failed) X(ENTRY, spout_task)                                          \
    X(ROTATING, _buckets) X(ROTATING, newest) X(TASK, _batch) X(TASK, backlog) X(TASK, inbox)       \
    X(SOURCE, acked)                                                                                                   \
    X(STATE, _changed) X(STATE, _committed) X(STATE, _prepared)

#define DECLARE(kind, name) static Py_ssize_t kind##_##name;
SLOTS(DECLARE)

static const struct {
    int kind;
    const char *name;
    Py_ssize_t *offset;
} slots[] = {
#define ROW(kind, name) {kind, #name, &kind##_##name},
    SLOTS(ROW)};

#define COUNT(table) (sizeof table / sizeof *table)
#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))
#define IS(object, kind) (Py_TYPE(object) == types[kind])
#define IS_TREE(object) (IS(object, ROOT) || IS(object, BRANCH) || PyObject_TypeCheck(object, types[TREE]))

/* Note where the slots of `cls` are; gives `cls`, to be used as a decorator. */
static PyObject *laid_out(PyObject *module, PyObject *cls)
{
    const char *name = PyType_Check(cls) ? ((PyTypeObject *)cls)->tp_name : "";
    int kind = 0;
    while (kind < KINDS && strcmp(kind_names[kind], name))
        kind++;
    if (kind == KINDS)
        return PyErr_Format(PyExc_TypeError, "the core does not know the class %R; build it anew", cls);
    Py_ssize_t found[COUNT(slots)];
    for (size_t i = 0; i < COUNT(slots); i++) {
        if (slots[i].kind != kind)
            continue;
        PyObject *member = PyObject_GetAttrString(cls, slots[i].name);
        if (member == NULL)
            return NULL;
        PyMemberDef *slot = Py_IS_TYPE(member, &PyMemberDescr_Type) ? ((PyMemberDescrObject *)member)->d_member : NULL;
        Py_DECREF(member); /* the class keeps it */
        if (slot == NULL || slot->type != T_OBJECT_EX)
            return PyErr_Format(PyExc_TypeError, "%s of %R is no slot; build the core anew", slots[i].name, cls);
        found[i] = slot->offset;
    }
    for (size_t i = 0; i < COUNT(slots); i++)
        if (slots[i].kind == kind)
            *slots[i].offset = found[i];
    Py_XSETREF(types[kind], (PyTypeObject *)Py_NewRef(cls));
    return Py_NewRef(cls);
}

/* What the Python functions find in the globals of their modules. */

static PyObject *SETTLED, *UNTRACKED, *DEFAULT_STREAM, *MOST_ROWS, *LARGE_BYTES;

static const struct {
    const char *name;
    PyObject **place;
} globals[] = {{"SETTLED", &SETTLED},
               {"UNTRACKED", &UNTRACKED},
               {"DEFAULT_STREAM", &DEFAULT_STREAM},
               {"MOST_ROWS", &MOST_ROWS},
               {"LARGE_BYTES", &LARGE_BYTES}};

/* X(interned name) */
#define NAMES(X)                                                                                                       \
    X(_draw) X(_emit_picked) X(_is_new) X(_left) X(_ledger) X(_make) X(_settled_anchor) X(anchors)                     \
    X(drained) X(edge_id) X(emit) X(message_id) X(part_acked) X(send) X(shop) X(stream) X(task_id) X(track)
#define DECLARE_NAME(name) static PyObject *s_##name;
NAMES(DECLARE_NAME)
static PyObject *id_bits;         /* 64 */
static PyObject *message_id_name; /* ("message_id",) */
static PyCFunction list_append;   /* what the method of lists calls */

/* Slots that hold ints. */

static void
put(PyObject *object, Py_ssize_t offset, PyObject *value) /* takes over the reference */
{
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = value;
    Py_XDECREF(old);
}

static int get_number(PyObject *object, Py_ssize_t offset, long long *number)
{
    PyObject *found = SLOT(object, offset);
    if (found == NULL || !PyLong_CheckExact(found)) {
        PyErr_Format(PyExc_TypeError, "%R holds no int where the compiled core needs one", object);
        return -1;
    }
    *number = PyLong_AsLongLong(found);
    return *number == -1 && PyErr_Occurred() ? -1 : 0;
}

/* Add to the int in a slot; gives the sum through `sum`, unless that is NULL. No Python code runs. */
static int add(PyObject *object, Py_ssize_t offset, long long more, long long *sum)
{
    long long number;
    if (get_number(object, offset, &number) < 0)
        return -1;
    PyObject *value = PyLong_FromLongLong(number + more);
    if (value == NULL)
        return -1;
    put(object, offset, value);
    if (sum != NULL)
        *sum = number + more;
    return 0;
}

/* XOR an id into the one in a slot; gives the result through `result`, unless that is NULL. */
static int xor_id(PyObject *object, Py_ssize_t offset, PyObject *id, Id *result)
{
    PyObject *found = SLOT(object, offset);
    if (found == NULL || !PyLong_CheckExact(found) || !PyLong_CheckExact(id)) {
        PyErr_Format(PyExc_TypeError, "%R holds no id where the compiled core needs one", object);
        return -1;
    }
    Id mixed = PyLong_AsUnsignedLongLong(found);
    if (mixed == (Id)-1 && PyErr_Occurred())
        return -1;
    Id other = PyLong_AsUnsignedLongLong(id);
    if (other == (Id)-1 && PyErr_Occurred())
        return -1;
    mixed ^= other;
    PyObject *value = PyLong_FromUnsignedLongLong(mixed);
    if (value == NULL)
        return -1;
    put(object, offset, value);
    if (result != NULL)
        *result = mixed;
    return 0;
}

/* Whether a slot holds the int zero; it must hold an int. */
static int is_zero(PyObject *object, Py_ssize_t offset)
{
    PyObject *found = SLOT(object, offset);
    return found != NULL && PyLong_CheckExact(found) && !PyObject_IsTrue(found);
}

static int is_slots_thread(PyObject *shop)
{
    PyObject *thread = SLOT(shop, SHOP_thread);
    return thread != NULL && PyLong_CheckExact(thread) &&
           PyLong_AsUnsignedLongMask(thread) == PyThread_get_thread_ident();
}

/* Tuples and the ways to their tasks. */

static PyObject *new_tuple(PyObject *values, PyObject *origin, PyObject *tree)
{
    PyObject *tup = types[TUPLE]->tp_alloc(types[TUPLE], 0);
    if (tup != NULL) {
        SLOT(tup, TUPLE_values) = Py_NewRef(values);
        SLOT(tup, TUPLE__origin) = Py_NewRef(origin);
        SLOT(tup, TUPLE__tree) = Py_NewRef(tree);
    }
    return tup;
}

/* The route of a stream (borrowed), if `values` fit it; else NULL, never with an error. */
static PyObject *route_of(PyObject *by_default, PyObject *routes, PyObject *stream, PyObject *values)
{
    PyObject *route = by_default;
    if (stream != DEFAULT_STREAM) {
        if (!PyUnicode_CheckExact(stream))
            return NULL;
        route = PyDict_GetItemWithError(routes, stream);
        if (route == NULL)
            PyErr_Clear();
    }
    long long arity;
    if (route == NULL || !IS(route, ROUTE) || !PyList_CheckExact(values))
        return NULL;
    if (get_number(route, ROUTE_arity, &arity) < 0) {
        PyErr_Clear();
        return NULL;
    }
    return PyList_GET_SIZE(values) == arity ? route : NULL;
}

static uint32_t crc_table[256];

static void fill_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
        crc_table[i] = crc;
    }
}

/* hashing.stable_hash of one short text of ASCII. With many keys this is quicker than a cache: no memory is touched. */
static uint32_t stable_hash(PyObject *text)
{
    const uint64_t golden = 0x9E3779B97F4A7C15;
    const unsigned char *at = PyUnicode_1BYTE_DATA(text), *end = at + PyUnicode_GET_LENGTH(text);
    uint32_t crc = crc_table[0xFF ^ 's'] ^ 0xFFFFFFFF >> 8;
    while (at < end)
        crc = crc >> 8 ^ crc_table[(crc ^ *at++) & 0xFF];
    uint64_t once = (crc ^ 0xFFFFFFFF) * golden;
    return (once ^ once >> 32) * golden >> 32;
}

/* The port of a key of a fields grouping, borrowed; NULL, maybe with an error, if only `pick` can tell. */
static PyObject *port_of_key(PyObject *route, PyObject *keys, PyObject *values)
{
    PyObject *ports = SLOT(route, ROUTE_ports);
    long long at;
    if (get_number(route, ROUTE_key_at, &at) < 0)
        return NULL;
    PyObject *key = PyList_GetItem(values, (Py_ssize_t)at);
    if (key == NULL)
        return NULL;
    if (SLOT(route, ROUTE_hashes) == Py_True && PyUnicode_CheckExact(key) && PyUnicode_IS_COMPACT_ASCII(key) &&
        PyUnicode_GET_LENGTH(key) <= SHORT_TEXT)
        return PyList_GetItem(ports, stable_hash(key) % PyList_GET_SIZE(ports));
    Py_INCREF(key); /* its own __eq__ could take it out of the list */
    PyObject *index = PyDict_GetItemWithError(keys, key);
    Py_DECREF(key);
    return index == NULL ? NULL : PyList_GetItem(ports, PyLong_AsSsize_t(index));
}

/* The one port for `values`, a new reference. NULL with an error, or without one if only `choose` can tell. */
static PyObject *pick_port(PyObject *route, PyObject *values)
{
    PyObject *port = SLOT(route, ROUTE_only), *keys = SLOT(route, ROUTE_keys), *pick = SLOT(route, ROUTE_pick);
    if (port != Py_None)
        return Py_NewRef(port);
    if (pick == Py_None)
        return NULL;
    if (keys != Py_None) {
        port = port_of_key(route, keys, values);
        if (port != NULL)
            return Py_NewRef(port);
    }
    else {
        port = PyObject_CallOneArg(pick, values);
        if (port != NULL)
            return port;
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_KeyError) && !PyErr_ExceptionMatches(PyExc_TypeError))
            return NULL;
        PyErr_Clear();
    }
    return PyObject_CallOneArg(pick, values);
}

static PyObject *list_of(PyObject *item)
{
    PyObject *list = item == NULL ? NULL : PyList_New(1);
    if (list != NULL)
        PyList_SET_ITEM(list, 0, Py_NewRef(item));
    return list;
}

static int call_append(PyObject *append, PyObject *item)
{
    if (PyCFunction_CheckExact(append) && PyCFunction_GET_FUNCTION(append) == list_append)
        return PyList_Append(PyCFunction_GET_SELF(append), item);
    PyObject *nothing = PyObject_CallOneArg(append, item);
    Py_XDECREF(nothing);
    return nothing == NULL ? -1 : 0;
}

/* Task.send and Outbox.send: tuples that leave the slot. Only the slot's own thread comes here. */

static int are_small_atoms(PyObject *values)
{
    Py_ssize_t large = PyLong_AsSsize_t(LARGE_BYTES);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); i++) {
        PyObject *value = PyList_GET_ITEM(values, i);
        if (PyUnicode_CheckExact(value) ? PyUnicode_GET_LENGTH(value) > large
            : PyBytes_CheckExact(value) ? PyBytes_GET_SIZE(value) > large
                                        : !(PyLong_CheckExact(value) || PyFloat_CheckExact(value) ||
                                            value == Py_None || PyBool_Check(value)))
            return 0;
    }
    return 1;
}

/* Outbox.edge_id */
static PyObject *next_edge(PyObject *outbox)
{
    PyObject *edge = PyIter_Next(SLOT(outbox, OUTBOX__edge_ids));
    return edge != NULL || PyErr_Occurred() ? edge : PyObject_CallMethodNoArgs(outbox, s_edge_id);
}

/* Outbox._anchor: `tree`, a Root or a Branch, leaves along a new edge. */
static int anchor(PyObject *outbox, PyObject *buffer, PyObject *tree)
{
    PyObject *home, *edge = next_edge(outbox);
    int done = -1;
    if (edge == NULL)
        return -1;
    if (IS(tree, ROOT)) {
        PyObject *task = SLOT(tree, ROOT_task);
        if (is_zero(tree, TRAVELLING_root_id)) {
            PyObject *nothing = PyObject_CallMethodOneArg(task, s_track, tree);
            if (nothing == NULL)
                goto end;
            Py_DECREF(nothing);
        }
        home = PyObject_GetAttr(task, s_task_id);
    }
    else
        home = Py_NewRef(SLOT(tree, BRANCH_home_task));
    if (home == NULL)
        goto end;
    if (xor_id(tree, TRAVELLING_edge, edge, NULL) == 0 &&
        PyList_Append(SLOT(buffer, BUFFER_roots), SLOT(tree, TRAVELLING_root_id)) == 0 &&
        PyList_Append(SLOT(buffer, BUFFER_homes), home) == 0)
        done = PyList_Append(SLOT(buffer, BUFFER_edges), edge);
    Py_DECREF(home);
end:
    Py_DECREF(edge);
    return done;
}

/* Put `values` into a buffer that has room and tuples in runs. 1 if done, 0 if this is for Python, -1 for an error. */
static int send_short(PyObject *shop, PyObject *buffer, PyObject *values, PyObject *tree)
{
    PyObject *rows = SLOT(buffer, BUFFER_rows), *counts = SLOT(buffer, BUFFER_counts);
    Py_ssize_t count = PyList_GET_SIZE(rows), last = PyList_GET_SIZE(counts) - 1;
    if (count + 1 >= PyLong_AsSsize_t(MOST_ROWS) || last < 0 || !are_small_atoms(values))
        return 0;
    if (tree == SLOT(buffer, BUFFER_run)) {
        PyObject *more = PyLong_FromSsize_t(PyLong_AsSsize_t(PyList_GET_ITEM(counts, last)) + 1);
        if (more == NULL || PyList_SetItem(counts, last, more) < 0)
            return -1;
    }
    else {
        if (SLOT(buffer, BUFFER_in_runs) != Py_True || !(IS(tree, ROOT) || IS(tree, BRANCH)))
            return 0;
        PyObject *one = PyLong_FromLong(1);
        int done = anchor(SLOT(shop, SHOP_outbox), buffer, tree) < 0 ? -1 : PyList_Append(counts, one);
        Py_DECREF(one);
        if (done < 0)
            return -1;
        put(buffer, BUFFER_run, Py_NewRef(tree));
    }
    return PyList_Append(rows, values) < 0 ? -1 : 1;
}

static int send(PyObject *shop, PyObject *task, PyObject *route, PyObject *buffer, PyObject *values, PyObject *tree)
{
    int done = send_short(shop, buffer, values, tree);
    if (done != 0)
        return done;
    PyObject *nothing = PyObject_CallMethodObjArgs(task, s_send, route, buffer, values, tree, NULL);
    Py_XDECREF(nothing);
    return nothing == NULL ? -1 : 0;
}

/* The ends of trees. */

/* SpoutTask.settle(root, acked=True), for a pending root that is not in the ledger. */
static int ack_root(PyObject *task, PyObject *root)
{
    if (PyDict_DelItem(SLOT(root, ROOT_bucket), root) < 0)
        return -1;
    put(root, ROOT_bucket, Py_NewRef(Py_None));
    return PyList_Append(SLOT(task, SOURCE_acked), root);
}

/* Root.drained, of a task of ours; 0 if it is another one, then nothing has been done. */
static int drain_root(PyObject *root)
{
    PyObject *task = SLOT(root, ROOT_task);
    if (!PyObject_TypeCheck(task, types[SOURCE]))
        return 0;
    if (!is_zero(root, TRAVELLING_root_id)) {
        PyObject *id = SLOT(root, TRAVELLING_root_id), *edge = SLOT(root, TRAVELLING_edge);
        PyObject *nothing = PyObject_CallMethodObjArgs(task, s_part_acked, id, edge, NULL);
        Py_XDECREF(nothing);
        return nothing == NULL ? -1 : 1;
    }
    return SLOT(root, ROOT_bucket) != Py_None && ack_root(task, root) < 0 ? -1 : 1;
}

/* The bucket of a RotatingMap that has an id, borrowed; else NULL, with an error or without. */
static PyObject *bucket_of(PyObject *rotating, PyObject *id)
{
    PyObject *buckets = SLOT(rotating, ROTATING__buckets);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(buckets); i++) {
        int found = PyDict_Contains(PyList_GET_ITEM(buckets, i), id);
        if (found != 0)
            return found < 0 ? NULL : PyList_GET_ITEM(buckets, i);
    }
    return NULL;
}

/* Branch.drained and Outbox.close, where acks are gathered for its home; 0 if not, then nothing has been done. */
static int drain_branch(PyObject *branch)
{
    PyObject *outbox = SLOT(branch, BRANCH_outbox), *id = SLOT(branch, TRAVELLING_root_id);
    if (!IS(outbox, OUTBOX) || SLOT(branch, BRANCH_failed) != Py_False || is_zero(branch, TRAVELLING_edge))
        return 0;
    PyObject *acks = PyDict_GetItemWithError(SLOT(outbox, OUTBOX__acks), SLOT(branch, BRANCH_home_task));
    if (acks == NULL)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *bucket = bucket_of(SLOT(outbox, OUTBOX_branches), id);
    if (PyErr_Occurred() || (bucket != NULL && PyDict_DelItem(bucket, id) < 0) ||
        PyList_Append(SLOT(acks, ACKS_acked_roots), id) < 0 ||
        PyList_Append(SLOT(acks, ACKS_acked_edges), SLOT(branch, TRAVELLING_edge)) < 0)
        return -1;
    put(branch, TRAVELLING_edge, PyLong_FromLong(0)); /* it is sent once; small ints are there already */
    return 1;
}

/* Workshop.leave, with the result of what is left. */
static PyObject *left(PyObject *shop, PyObject *result)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if (add(shop, SHOP_inside, -1, NULL) < 0)
        Py_CLEAR(result);
    else
        PyErr_Restore(kind, value, traceback);
    return result;
}

/* The end of BoltCollector.ack: the last open tuple of `tree` has been acked. */
static PyObject *drain(PyObject *collector, PyObject *tree)
{
    PyObject *shop = Py_NewRef(SLOT(collector, BOLT__shop)), *result = NULL;
    if (!is_slots_thread(shop)) {
        PyObject *drained = PyObject_GetAttr(tree, s_drained);
        result = drained == NULL ? NULL : PyObject_CallMethodOneArg(collector, s__make, drained);
        Py_XDECREF(drained);
    } else if (add(shop, SHOP_inside, 1, NULL) == 0) {
        int done = IS(tree, ROOT) ? drain_root(tree) : IS(tree, BRANCH) ? drain_branch(tree) : 0;
        if (done >= 0)
            result = done ? Py_NewRef(Py_None) : PyObject_CallMethodNoArgs(tree, s_drained);
        result = left(shop, result);
    }
    Py_DECREF(shop);
    return result;
}

/* The functions that stand for Python ones. Each gives its result, NULL with an error, or `PYTHON`: take the long way,
   nothing has been changed. `args` are those of a vectorcall, `self` being the first. */

static PyObject long_way;
#define PYTHON (&long_way)
typedef PyObject *(*Short)(PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Read the keyword arguments `stream` and `name`; whether there is no other. */
static int read_keywords(PyObject *const *values, PyObject *names, PyObject *name, PyObject **value, PyObject **stream)
{
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        PyObject *given = PyTuple_GET_ITEM(names, i);
        if (given != name && given != s_stream)
            return 0;
        *(given == s_stream ? stream : value) = values[i];
    }
    return 1;
}

static PyObject *emitted(PyObject *route, PyObject *result)
{
    if (result != NULL && add(route, ROUTE_emitted, 1, NULL) < 0)
        Py_CLEAR(result);
    return result;
}

static void raise_settled(PyObject *collector, PyObject *anchor)
{
    PyObject *error = PyObject_CallMethodOneArg(collector, s__settled_anchor, anchor);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
}

/* The end of BoltCollector.emit, when the port is known. */
static PyObject *
bolt_emit_to(PyObject *self, PyObject *route, PyObject *port, PyObject *values, PyObject *tree, PyObject *anchors)
{
    PyObject *append = SLOT(port, PORT_append), *buffer = SLOT(port, PORT_buffer), *shop = SLOT(self, BOLT__shop);
    int leaves = append == Py_None; /* the slot */
    if (leaves && (buffer == Py_None || !is_slots_thread(shop)))
        return PyObject_CallMethodObjArgs(self, s__emit_picked, route, port, values, anchors, NULL);
    if (leaves && add(shop, SHOP_inside, 1, NULL) < 0) /* Workshop.enter */
        return NULL;
    PyObject *result = list_of(SLOT(port, PORT_task_id)), *tup = NULL;
    int done = -1;
    if (result == NULL || (append != Py_None && !(tup = new_tuple(values, SLOT(route, ROUTE_origin), tree))))
        goto end;
    if (anchors != Py_None && SLOT(anchors, TUPLE__tree) != tree)
        raise_settled(self, anchors); /* another thread, or the user's own `__hash__`, has settled it meanwhile */
    else if (append == Py_None)
        done = send(shop, SLOT(self, BOLT__task), route, buffer, values, tree);
    else if (add(tree, TREE_open, 1, NULL) == 0) /* before anybody can see the tuple */
        done = call_append(append, tup);
end:
    Py_XDECREF(tup);
    if (done < 0)
        Py_CLEAR(result);
    return emitted(route, leaves ? left(shop, result) : result);
}

/* Task.send(route, buffer, values, tree) */
static PyObject *task_send(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 5 || names != NULL || !IS(args[2], BUFFER) || !PyList_CheckExact(args[3]))
        return PYTHON;
    PyObject *shop = PyObject_GetAttr(args[0], s_shop);
    if (shop == NULL)
        return NULL;
    int done = send_short(shop, args[2], args[3], args[4]);
    Py_DECREF(shop);
    return done < 0 ? NULL : done ? Py_NewRef(Py_None) : PYTHON;
}

/* BoltCollector.emit(values, anchors=..., stream=...) and .emit(tup, values) */
static PyObject *bolt_emit(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = args[0], *anchors = Py_None, *stream = DEFAULT_STREAM, *tree = UNTRACKED;
    if (SLOT(self, BOLT_short_way) != Py_True || count < 2 || count > 3)
        return PYTHON;
    if (count == 3 && !IS(anchors = args[1], TUPLE))
        return PYTHON;
    PyObject *values = args[count - 1];
    if (!read_keywords(args + count, names, count == 2 ? s_anchors : NULL, &anchors, &stream))
        return PYTHON;
    PyObject *route = route_of(SLOT(self, BOLT_default), SLOT(self, BOLT_routes), stream, values);
    if (route == NULL)
        return PYTHON;
    if (anchors != Py_None) {
        tree = IS(anchors, TUPLE) ? SLOT(anchors, TUPLE__tree) : NULL;
        if (tree == NULL || tree == SETTLED || !IS_TREE(tree) || IS(tree, TAKEN_BACK))
            return PYTHON;
    }
    Py_INCREF(route); /* picking a port may run Python code */
    Py_INCREF(tree);
    PyObject *port = pick_port(route, values), *result = PyErr_Occurred() ? NULL : PYTHON;
    if (port != NULL) {
        result = bolt_emit_to(self, route, port, values, tree, anchors);
        Py_DECREF(port);
    }
    Py_DECREF(tree);
    Py_DECREF(route);
    return result;
}

/* BoltCollector.ack(tup) */
static PyObject *bolt_ack(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = args[0];
    if (SLOT(self, BOLT_short_way) != Py_True || count != 2 || names != NULL || !IS(args[1], TUPLE))
        return PYTHON;
    PyObject *tup = args[1], *tree = SLOT(tup, TUPLE__tree), *held = SLOT(self, BOLT_held);
    if (tree == NULL || tree == SETTLED || !IS_TREE(tree) || PyDict_GET_SIZE(held))
        return PYTHON;
    SLOT(tup, TUPLE__tree) = Py_NewRef(SETTLED); /* of two threads that ack at the same time one gets the tree */
    long long open;
    PyObject *result = NULL;
    if (add(self, BOLT_acked, 1, NULL) == 0 && add(tree, TREE_open, -1, &open) == 0)
        result = open ? Py_NewRef(Py_None) : drain(self, tree);
    Py_DECREF(tree);
    return result;
}

static PyObject *new_root(PyObject *self, PyObject *message_id)
{
    PyObject *root = types[ROOT]->tp_alloc(types[ROOT], 0);
    if (root != NULL) {
        SLOT(root, TREE_open) = PyLong_FromLong(1); /* small ints are there already: this cannot fail */
        SLOT(root, TRAVELLING_root_id) = PyLong_FromLong(0);
        SLOT(root, ROOT_task) = Py_NewRef(SLOT(self, SPOUT__task));
        SLOT(root, ROOT_message_id) = Py_NewRef(message_id);
        SLOT(root, ROOT_emitted_at) = Py_NewRef(SLOT(self, SPOUT_now));
        SLOT(root, ROOT_bucket) = Py_NewRef(SLOT(self, SPOUT_bucket));
    }
    return root;
}

/* A tuple of a new tree goes to a task of this slot. */
static int launch(PyObject *self, PyObject *route, PyObject *append, PyObject *values, PyObject *message_id)
{
    PyObject *root = new_root(self, message_id);
    PyObject *tup = root == NULL ? NULL : new_tuple(values, SLOT(route, ROUTE_origin), root);
    int done = -1;
    if (tup != NULL && PyDict_SetItem(SLOT(root, ROOT_bucket), root, Py_None) == 0)
        done = call_append(append, tup); /* when its tree is pending: before that nobody shall see it */
    Py_XDECREF(tup);
    Py_XDECREF(root);
    return done;
}

/* The end of SpoutCollector.emit, when the port is known. */
static PyObject *spout_emit_to(PyObject *self, PyObject *route, PyObject *port, PyObject *values, PyObject *message_id)
{
    PyObject *append = SLOT(port, PORT_append);
    if (append == Py_None)
        return PyObject_CallMethodObjArgs(self, s__emit_picked, route, port, values, message_id, NULL);
    PyObject *result = list_of(SLOT(port, PORT_task_id));
    if (result != NULL &&
        (launch(self, route, append, values, message_id) < 0 || add(self, SPOUT_emits, 1, NULL) < 0))
        Py_CLEAR(result);
    return emitted(route, result);
}

/* SpoutCollector.emit(values, message_id=..., stream=...) */
static PyObject *spout_emit(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = args[0], *message_id = Py_None, *stream = DEFAULT_STREAM;
    if (SLOT(self, SPOUT_short_way) != Py_True || count != 2)
        return PYTHON;
    PyObject *values = args[1];
    if (!read_keywords(args + count, names, s_message_id, &message_id, &stream))
        return PYTHON;
    PyObject *route = route_of(SLOT(self, SPOUT_default), SLOT(self, SPOUT_routes), stream, values);
    if (route == NULL || message_id == Py_None)
        return PYTHON;
    if (SLOT(self, SPOUT__plainly) != Py_True) {
        PyObject *is_new = PyObject_CallMethodOneArg(self, s__is_new, message_id);
        if (is_new != Py_True) {
            Py_XDECREF(is_new);
            return is_new == NULL ? NULL : PYTHON;
        }
        Py_DECREF(is_new);
    }
    Py_INCREF(route); /* picking a port may run Python code */
    PyObject *port = pick_port(route, values), *result = PyErr_Occurred() ? NULL : PYTHON;
    if (port != NULL) {
        result = spout_emit_to(self, route, port, values, message_id);
        Py_DECREF(port);
    }
    Py_DECREF(route);
    return result;
}

/* Tell `refused` of the error that is set, for a message that could not be emitted. */
static int tell_refused(PyObject *refused, PyObject *message_id, PyObject *values)
{
    PyObject *kind, *error, *traceback;
    PyErr_Fetch(&kind, &error, &traceback);
    PyErr_NormalizeException(&kind, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    PyObject *nothing = PyObject_CallFunctionObjArgs(refused, message_id, values, error, NULL);
    Py_XDECREF(nothing);
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return nothing == NULL ? -1 : 0;
}

/* The port of all tuples of a spout's default stream, if that is a task of this slot and nothing else is to be asked;
   borrowed. */
static PyObject *only_port(PyObject *self, PyObject *values)
{
    if (SLOT(self, SPOUT_short_way) != Py_True || SLOT(self, SPOUT__plainly) != Py_True)
        return NULL;
    PyObject *route = route_of(SLOT(self, SPOUT_default), SLOT(self, SPOUT_routes), DEFAULT_STREAM, values);
    PyObject *port = route == NULL ? Py_None : SLOT(route, ROUTE_only);
    return port == Py_None || SLOT(port, PORT_append) == Py_None ? NULL : port;
}

/* `where` with a number behind it. */
static PyObject *numbered(PyObject *where, long long number)
{
    Py_ssize_t size = PyTuple_GET_SIZE(where);
    PyObject *id = PyTuple_New(size + 1), *last = PyLong_FromLongLong(number);
    if (id == NULL || last == NULL) {
        Py_XDECREF(id);
        Py_XDECREF(last);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < size; i++)
        PyTuple_SET_ITEM(id, i, Py_NewRef(PyTuple_GET_ITEM(where, i)));
    PyTuple_SET_ITEM(id, size, last);
    return id;
}

/* self.emit(values, message_id=message_id) */
static int emit_one(PyObject *const *args)
{
    PyObject *result = spout_emit(args, 2, message_id_name);
    if (result == PYTHON)
        result = PyObject_VectorcallMethod(s_emit, args, 2, message_id_name);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* spout_collector.emit_numbered(collector, rows, where, first, refused) */
static PyObject *emit_numbered(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 5 || names != NULL || !PyList_CheckExact(args[1]) || !PyTuple_CheckExact(args[2]))
        return PYTHON;
    long long first = PyLong_AsLongLong(args[3]), plain = 0;
    if (first == -1 && PyErr_Occurred())
        return NULL;
    PyObject *self = args[0], *route = Py_NewRef(SLOT(self, SPOUT_default));
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *emit[] = {self, Py_NewRef(PyList_GET_ITEM(args[1], i)), numbered(args[2], first + i)};
        PyObject *port = only_port(self, emit[1]);
        if (emit[2] == NULL)
            done = -1;
        else if (port == NULL)
            done = emit_one(emit);
        else if ((done = launch(self, route, SLOT(port, PORT_append), emit[1], emit[2])) == 0)
            plain++;
        if (done < 0 && emit[2] != NULL)
            done = tell_refused(args[4], emit[2], emit[1]);
        Py_DECREF(emit[1]);
        Py_XDECREF(emit[2]);
    }
    if (plain > 0 && (add(self, SPOUT_emits, plain, NULL) < 0 || add(route, ROUTE_emitted, plain, NULL) < 0))
        done = -1;
    Py_DECREF(route);
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *new_entry(PyObject *edges, PyObject *spout_task)
{
    PyObject *entry = types[ENTRY]->tp_alloc(types[ENTRY], 0);
    if (entry != NULL) {
        SLOT(entry, ENTRY_edges) = Py_NewRef(edges);
        SLOT(entry, ENTRY_spout_task) = Py_NewRef(spout_task);
        SLOT(entry, ENTRY_failed) = Py_NewRef(Py_False);
    }
    return entry;
}

/* SpoutTask.track(root) and AckLedger.init, for a pending root whose id nobody has, as nearly all are. */
static PyObject *track(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 2 || names != NULL || !IS(args[1], ROOT) || SLOT(args[1], ROOT_bucket) == Py_None)
        return PYTHON;
    PyObject *self = args[0], *root = args[1], *id = NULL, *here = NULL, *entry = NULL, *result = NULL;
    PyObject *left = PyObject_GetAttr(self, s__left), *ledger = PyObject_GetAttr(self, s__ledger);
    PyObject *shop = PyObject_GetAttr(self, s_shop), *task_id = PyObject_GetAttr(self, s_task_id);
    if (!left || !ledger || !shop || !task_id || !(id = PyObject_CallMethodOneArg(self, s__draw, id_bits)))
        goto end;
    if (!is_slots_thread(shop)) {
        result = PYTHON;
        goto end;
    }
    PyObject *entries = SLOT(ledger, LEDGER__entries);
    int is_taken = !PyObject_IsTrue(id) || PyDict_Contains(left, id) || bucket_of(entries, id) != NULL;
    if (is_taken || PyErr_Occurred()) {
        result = PyErr_Occurred() ? NULL : PYTHON;
        goto end;
    }
    if (!(here = next_edge(SLOT(shop, SHOP_outbox))) || !(entry = new_entry(here, task_id)))
        goto end;
    if (!is_zero(root, TRAVELLING_root_id)) { /* another thread was first */
        result = Py_NewRef(Py_None);
        goto end;
    }
    if (PyDict_SetItem(left, id, root) < 0 || PyDict_SetItem(SLOT(entries, ROTATING_newest), id, entry) < 0)
        goto end;
    put(root, TRAVELLING_root_id, Py_NewRef(id));
    put(root, TRAVELLING_edge, Py_NewRef(here));
    result = Py_NewRef(Py_None);
end:
    Py_XDECREF(entry);
    Py_XDECREF(here);
    Py_XDECREF(id);
    Py_XDECREF(task_id);
    Py_XDECREF(shop);
    Py_XDECREF(ledger);
    Py_XDECREF(left);
    return result;
}

/* SpoutTask.part_acked(root_id, edges), where the ledger has heard of the root lately. */
static PyObject *part_acked(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 3 || names != NULL || !PyLong_CheckExact(args[1]))
        return PYTHON;
    PyObject *self = args[0], *id = args[1], *left = PyObject_GetAttr(self, s__left);
    PyObject *ledger = left == NULL ? NULL : PyObject_GetAttr(self, s__ledger), *result = NULL;
    if (ledger == NULL)
        goto end;
    PyObject *entries = SLOT(ledger, LEDGER__entries), *newest = SLOT(entries, ROTATING_newest);
    PyObject *root = PyDict_GetItemWithError(left, id), *entry = PyDict_GetItemWithError(newest, id);
    Id edges;
    if (root == NULL)
        result = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    else if (entry == NULL || SLOT(entry, ENTRY_spout_task) == Py_None)
        result = PyErr_Occurred() ? NULL : PYTHON;
    else if (xor_id(entry, ENTRY_edges, args[2], &edges) == 0) {
        if (edges)
            result = Py_NewRef(Py_None);
        else if (PyDict_DelItem(newest, id) == 0 && ack_root(self, root) == 0 && PyDict_DelItem(left, id) == 0)
            result = Py_NewRef(Py_None);
    }
end:
    Py_XDECREF(left);
    Py_XDECREF(ledger);
    return result;
}

/* Outbox.enter, and then `count` more tuples. */
static PyObject *enter(PyObject *outbox, PyObject *id, PyObject *home, PyObject *edge, Py_ssize_t count)
{
    PyObject *branches = SLOT(outbox, OUTBOX_branches), *bucket = bucket_of(branches, id);
    PyObject *branch = bucket == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(bucket, id));
    if (PyErr_Occurred())
        return NULL;
    if (branch == NULL) {
        if (!(branch = types[BRANCH]->tp_alloc(types[BRANCH], 0)))
            return NULL;
        SLOT(branch, TREE_open) = PyLong_FromLong(0); /* small ints are there already: this cannot fail */
        SLOT(branch, TRAVELLING_edge) = PyLong_FromLong(0);
        SLOT(branch, TRAVELLING_root_id) = Py_NewRef(id);
        SLOT(branch, BRANCH_home_task) = Py_NewRef(home);
        SLOT(branch, BRANCH_outbox) = Py_NewRef(outbox);
        SLOT(branch, BRANCH_failed) = Py_NewRef(Py_False);
        if (PyDict_SetItem(SLOT(branches, ROTATING_newest), id, branch) < 0)
            Py_CLEAR(branch);
    }
    if (branch != NULL && (xor_id(branch, TRAVELLING_edge, edge, NULL) < 0 || add(branch, TREE_open, count, NULL) < 0))
        Py_CLEAR(branch);
    return branch;
}

/* arrivals._fill(inbox, origin, rows, anchors, outbox); `anchors` are (roots, homes, edges, counts). */
static PyObject *fill(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 5 || names != NULL || !IS(args[4], OUTBOX))
        return PYTHON;
    PyObject *inbox = args[0], *origin = args[1], *rows = args[2], *outbox = args[4];
    PyObject *columns[4] = {NULL}, *result = NULL;
    Py_ssize_t at = 0;
    for (int i = 0; i < 4; i++)
        if (!(columns[i] = PySequence_List(PyTuple_GET_ITEM(args[3], i))))
            goto end;
    for (Py_ssize_t run = 0; run < PyList_GET_SIZE(columns[0]); run++) {
        PyObject *given[4];
        for (int i = 0; i < 4; i++)
            if (!(given[i] = PyList_GetItem(columns[i], run)))
                goto end;
        Py_ssize_t until = at + PyLong_AsSsize_t(given[3]);
        PyObject *branch = enter(outbox, given[0], given[1], given[2], until - at);
        if (branch == NULL)
            goto end;
        for (int done = 0; done == 0 && at < until; at++) {
            PyObject *row = PyList_GetItem(rows, at), *tup = row == NULL ? NULL : new_tuple(row, origin, branch);
            done = tup == NULL ? -1 : PyList_Append(inbox, tup);
            Py_XDECREF(tup);
        }
        Py_DECREF(branch);
        if (PyErr_Occurred())
            goto end;
    }
    result = Py_NewRef(Py_None);
end:
    for (int i = 0; i < 4; i++)
        Py_XDECREF(columns[i]);
    return result;
}

/* BoltTask._next_batch(), where the queue is one batch. */
static PyObject *next_batch(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *inbox = SLOT(args[0], TASK_inbox), *backlog = SLOT(args[0], TASK_backlog);
    Py_ssize_t size = PyList_GET_SIZE(inbox);
    if (count != 1 || PyList_GET_SIZE(backlog) || size > PyLong_AsSsize_t(SLOT(args[0], TASK__batch)))
        return PYTHON;
    PyObject *batch = PyList_GetSlice(inbox, 0, size);
    if (batch != NULL && PyList_SetSlice(inbox, 0, size, NULL) < 0)
        Py_CLEAR(batch);
    return batch;
}

/* Whether a value is kept as it is: nobody can change it. */
static int is_atom(PyObject *value)
{
    return value == Py_None || PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBool_Check(value) || PyBytes_CheckExact(value);
}

/* KeyValueState.get(key[, default]), where the value is an atom; one that is deleted is left to Python. */
static PyObject *state_get(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count < 2 || count > 3)
        return PYTHON;
    PyObject *value = NULL;
    static Py_ssize_t *const layers[] = {&STATE__changed, &STATE__prepared, &STATE__committed};
    for (size_t i = 0; value == NULL && i < COUNT(layers); i++) {
        value = PyDict_GetItemWithError(SLOT(args[0], *layers[i]), args[1]);
        if (value == NULL && PyErr_Occurred())
            return NULL;
    }
    if (value == NULL)
        return Py_NewRef(count == 3 ? args[2] : Py_None);
    return is_atom(value) ? Py_NewRef(value) : PYTHON;
}

/* KeyValueState.put(key, value), where the key has changed before and was an atom, and the value is one. */
static PyObject *state_put(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count != 3 || !is_atom(args[2]))
        return PYTHON;
    PyObject *changed = SLOT(args[0], STATE__changed), *old = PyDict_GetItemWithError(changed, args[1]);
    if (old == NULL || !is_atom(old)) {
        PyErr_Clear(); /* a key that cannot be hashed: Python says so */
        return PYTHON;
    }
    return PyDict_SetItem(changed, args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
}

/* held_outcomes._read(roots) */
static PyObject *read_roots(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 1 || names != NULL || !PyList_CheckExact(args[0]))
        return PYTHON;
    Py_ssize_t size = PyList_GET_SIZE(args[0]);
    for (Py_ssize_t i = 0; i < size; i++)
        if (!IS(PyList_GET_ITEM(args[0], i), ROOT))
            return PYTHON;
    PyObject *ids = PyList_New(size), *times = PyList_New(size), *result = NULL;
    if (ids != NULL && times != NULL) {
        for (Py_ssize_t i = 0; i < size; i++) {
            PyObject *root = PyList_GET_ITEM(args[0], i);
            PyList_SET_ITEM(ids, i, Py_NewRef(SLOT(root, ROOT_message_id)));
            PyList_SET_ITEM(times, i, Py_NewRef(SLOT(root, ROOT_emitted_at)));
        }
        result = PyTuple_Pack(2, ids, times);
    }
    Py_XDECREF(ids);
    Py_XDECREF(times);
    return result;
}

/* A number of 32 bits in a buffer that need not be aligned. */
static Py_ssize_t number_at(const void *buffer, Py_ssize_t index)
{
    int32_t number;
    memcpy(&number, (const char *)buffer + sizeof number * index, sizeof number);
    return number;
}

/* arrow_rows._texts(ends, data), with ends of 32 bits. */
static PyObject *texts(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Py_buffer view;
    if (count != 2 || names != NULL || !PyBytes_CheckExact(args[1]))
        return PYTHON;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_CONTIG_RO) < 0)
        return NULL;
    const char *data = PyBytes_AS_STRING(args[1]);
    Py_ssize_t size = PyBytes_GET_SIZE(args[1]), pieces = view.len / 4 - 1;
    PyObject *found = view.itemsize == 4 && pieces >= 0 ? PyList_New(pieces) : PYTHON;
    for (Py_ssize_t i = 0; found != PYTHON && found != NULL && i < pieces; i++) {
        Py_ssize_t begin = number_at(view.buf, i), end = number_at(view.buf, i + 1);
        int is_within = 0 <= begin && begin <= end && end <= size;
        PyObject *text = is_within ? PyUnicode_DecodeUTF8(data + begin, end - begin, "replace") : NULL;
        if (text != NULL)
            PyList_SET_ITEM(found, i, text);
        else
            Py_SETREF(found, is_within ? NULL : PYTHON);
    }
    PyBuffer_Release(&view);
    return found;
}

/* arrow_rows._rows(columns) */
static PyObject *rows_of_columns(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 1 || names != NULL || !PyList_CheckExact(args[0]) || !PyList_GET_SIZE(args[0]))
        return PYTHON;
    PyObject *columns = args[0], *first = PyList_GET_ITEM(columns, 0);
    Py_ssize_t width = PyList_GET_SIZE(columns), height = PyList_CheckExact(first) ? PyList_GET_SIZE(first) : 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *column = PyList_GET_ITEM(columns, i);
        if (!PyList_CheckExact(column) || PyList_GET_SIZE(column) != height)
            return PYTHON;
    }
    PyObject *rows = PyList_New(height);
    for (Py_ssize_t i = 0; rows != NULL && i < height; i++) {
        PyObject *row = PyList_New(width);
        if (row == NULL) {
            Py_CLEAR(rows);
            break;
        }
        for (Py_ssize_t j = 0; j < width; j++)
            PyList_SET_ITEM(row, j, Py_NewRef(PyList_GET_ITEM(PyList_GET_ITEM(columns, j), i)));
        PyList_SET_ITEM(rows, i, row);
    }
    return rows;
}

static const struct {
    const char *name;
    int kind; /* of `self`; KINDS where the class has no slots, or there is no `self` */
    Short shortly;
} shorts[] = {{"BoltCollector.emit", BOLT, bolt_emit},
              {"BoltCollector.ack", BOLT, bolt_ack},
              {"SpoutCollector.emit", SPOUT, spout_emit},
              {"emit_numbered", SPOUT, emit_numbered},
              {"SpoutTask.track", SOURCE, track},
              {"SpoutTask.part_acked", SOURCE, part_acked},
              {"BoltTask._next_batch", TASK, next_batch},
              {"Task.send", KINDS, task_send},
              {"_fill", KINDS, fill},
              {"_read", KINDS, read_roots},
              {"_texts", KINDS, texts},
              {"_rows", KINDS, rows_of_columns},
              {"KeyValueState.get", STATE, state_get},
              {"KeyValueState.put", STATE, state_put}};

/* A Python function with a short way in C; in a class it is a method. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    Short shortly;
    int kind;
} Compiled;

static PyObject *compiled_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    Compiled *self = (Compiled *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (self->kind == KINDS || (count > 0 && types[self->kind] && PyObject_TypeCheck(args[0], types[self->kind]))) {
        PyObject *result = self->shortly(args, count, names);
        if (result != PYTHON)
            return result;
    }
    return PyObject_Vectorcall(self->function, args, flags, names);
}

static PyObject *compiled_get(PyObject *self, PyObject *object, PyObject *cls)
{
    return object == NULL ? Py_NewRef(self) : PyMethod_New(self, object);
}

/* The name, the docstring and so on are those of the Python function. */
static PyObject *of_function(PyObject *self, void *name)
{
    return PyObject_GetAttrString(((Compiled *)self)->function, name);
}

/* It is pickled as functions are: by its name. */
static PyObject *compiled_reduce(PyObject *self, PyObject *nothing)
{
    return of_function(self, "__qualname__");
}

static PyMethodDef compiled_methods[] = {{"__reduce__", compiled_reduce, METH_NOARGS, NULL}, {NULL}};

static PyGetSetDef compiled_attributes[] = {{"__doc__", of_function, NULL, NULL, "__doc__"},
                                            {"__module__", of_function, NULL, NULL, "__module__"},
                                            {"__name__", of_function, NULL, NULL, "__name__"},
                                            {"__qualname__", of_function, NULL, NULL, "__qualname__"},
                                            {NULL}};

static int compiled_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Compiled *)self)->function);
    return 0;
}

static int compiled_clear(PyObject *self)
{
    Py_CLEAR(((Compiled *)self)->function);
    return 0;
}

static void compiled_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    compiled_clear(self);
    PyObject_GC_Del(self);
}

static PyMemberDef compiled_members[] = {
    {"__wrapped__", T_OBJECT_EX, offsetof(Compiled, function), READONLY, NULL},
    {NULL}};

static PyTypeObject CompiledType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pystorm_spark._core.Compiled",
    .tp_basicsize = sizeof(Compiled),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(Compiled, vectorcall),
    .tp_descr_get = compiled_get,
    .tp_traverse = compiled_traverse,
    .tp_clear = compiled_clear,
    .tp_dealloc = compiled_dealloc,
    .tp_members = compiled_members,
    .tp_methods = compiled_methods,
    .tp_getset = compiled_attributes,
};

/* Wrap a Python function; to be used as a decorator. */
static PyObject *compiled(PyObject *module, PyObject *function)
{
    if (!PyFunction_Check(function))
        return PyErr_Format(PyExc_TypeError, "%R is no function", function);
    const char *name = PyUnicode_AsUTF8(((PyFunctionObject *)function)->func_qualname);
    size_t i = 0;
    while (name != NULL && i < COUNT(shorts) && strcmp(shorts[i].name, name))
        i++;
    if (name == NULL || i == COUNT(shorts))
        return PyErr_Format(PyExc_TypeError, "the core does not know the function %R; build it anew", function);
    for (size_t j = 0; j < COUNT(globals); j++) {
        PyObject *found = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), globals[j].name);
        if (found != NULL)
            Py_XSETREF(*globals[j].place, Py_NewRef(found));
    }
    Compiled *self = PyObject_GC_New(Compiled, &CompiledType);
    if (self == NULL)
        return NULL;
    self->vectorcall = compiled_call;
    self->function = Py_NewRef(function);
    self->shortly = shorts[i].shortly;
    self->kind = shorts[i].kind;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyMethodDef functions[] = {
    {"laid_out", laid_out, METH_O, "Note where the slots of a class are."},
    {"compiled", compiled, METH_O, "Give a Python function its short way."},
    {NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "pystorm_spark._core", "The compiled core: see `core`.", -1, functions};

static PyCFunction append_of_lists(void)
{
    PyObject *list = PyList_New(0), *append = list == NULL ? NULL : PyObject_GetAttrString(list, "append");
    PyCFunction found = append == NULL ? NULL : PyCFunction_GET_FUNCTION(append);
    Py_XDECREF(append);
    Py_XDECREF(list);
    return found;
}

PyMODINIT_FUNC
PyInit__core(void)
{
#define INTERN(name)                                                                                                   \
    if (!(s_##name = PyUnicode_InternFromString(#name)))                                                               \
        return NULL;
    NAMES(INTERN)
    fill_crc_table();
    id_bits = PyLong_FromLong(64);
    message_id_name = PyTuple_Pack(1, s_message_id);
    list_append = append_of_lists();
    return PyType_Ready(&CompiledType) < 0 ? NULL : PyModule_Create(&definition);
}
