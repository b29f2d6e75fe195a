/* The compiled core: fast paths, in C, of the hottest functions of the runtime.

   It has no state and no types of its own. Tuples, trees, routes, ports and buffers are Python classes with `__slots__`.
   `laid_out` stores the offset of each slot, and C reads and writes the slots directly. `compiled` wraps a Python
   function: a call first tries the C version. If the call is not a common one, C gives up before it changes anything,
   and the Python function is called as if there were no C. So Python defines what a function does, and each function
   here names its Python counterpart.

   User threads may emit and ack. Between a check and the change that relies on it, no Python code may run, because it
   could hand the interpreter's lock to another thread. So there is no call, no allocation of a container (it may start
   the garbage collector), and no dropped reference to anything but ints.

   A slot may be empty or contain anything, and Python code may change it. So a value is checked after it is read, and a
   value used after Python code could run is a reference of our own. An invalid value is left to Python, or raises a
   TypeError if something was changed already. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define SHORT_TEXT 64 /* a key of up to so many characters is hashed without a cache */

typedef unsigned long long Id; /* of a root or an edge: 64 bits */

/* The slots of the classes. */

enum { TUPLE, TREE, TRAVELLING, ROOT, BRANCH, ROUTE, PORT, BUFFER, ACKS, OUTBOX, CONTEXT, BOLT, SPOUT, LEDGER, ENTRY,
       ROTATING, TASK, SOURCE, STATE, ROLLED_BACK, KINDS };

static const struct {
    const char *module, *name;
    int base; /* the kind of its base class; KINDS if none */
} kinds[KINDS] = {
    [TUPLE] = {"pystorm_spark.topology.tuple", "Tuple", KINDS},
    [TREE] = {"pystorm_spark.topology.tuple", "Tree", KINDS},
    [TRAVELLING] = {"pystorm_spark.runtime.trees", "Travelling", TREE},
    [ROOT] = {"pystorm_spark.runtime.trees", "Root", TRAVELLING},
    [BRANCH] = {"pystorm_spark.runtime.trees", "Branch", TRAVELLING},
    [ROUTE] = {"pystorm_spark.runtime.router", "Route", KINDS},
    [PORT] = {"pystorm_spark.runtime.router", "Port", KINDS},
    [BUFFER] = {"pystorm_spark.runtime.frames", "TupleBuffer", KINDS},
    [ACKS] = {"pystorm_spark.runtime.frames", "AckBuffer", KINDS},
    [OUTBOX] = {"pystorm_spark.runtime.frames", "Outbox", KINDS},
    [CONTEXT] = {"pystorm_spark.runtime.slot_context", "SlotContext", KINDS},
    [BOLT] = {"pystorm_spark.runtime.bolt_collector", "BoltCollector", KINDS},
    [SPOUT] = {"pystorm_spark.runtime.spout_collector", "SpoutCollector", KINDS},
    [LEDGER] = {"pystorm_spark.runtime.acker", "AckLedger", KINDS},
    [ENTRY] = {"pystorm_spark.runtime.acker", "AckEntry", KINDS},
    [ROTATING] = {"pystorm_spark.runtime.rotating", "RotatingMap", KINDS},
    [TASK] = {"pystorm_spark.runtime.bolt_task", "BoltTask", KINDS},
    [SOURCE] = {"pystorm_spark.runtime.spout_task", "SpoutTask", KINDS},
    [STATE] = {"pystorm_spark.state.key_value", "KeyValueState", KINDS},
    [ROLLED_BACK] = {"pystorm_spark.runtime.trees", "RolledBack", TREE},
};
static PyTypeObject *types[KINDS];

/* X(kind, name of the slot): the offset of slot `s` of kind `K` is `K_s`. */
#define SLOTS(X)                                                                                                       \
    X(TUPLE, values) X(TUPLE, _origin) X(TUPLE, _tree) X(TREE, unsettled) X(TRAVELLING, edge) X(TRAVELLING, root_id)        \
    X(ROOT, bucket) X(ROOT, emitted_at) X(ROOT, message_id) X(ROOT, task) X(ROOT, why)                                 \
    X(BRANCH, failed) X(BRANCH, home_task) X(BRANCH, outbox)                                                           \
    X(ROUTE, arity) X(ROUTE, emitted) X(ROUTE, hashes) X(ROUTE, key_at) X(ROUTE, keys) X(ROUTE, only)                  \
    X(ROUTE, origin) X(ROUTE, pick) X(ROUTE, ports) X(PORT, append) X(PORT, buffer) X(PORT, task_id)                   \
    X(BUFFER, counts) X(BUFFER, edges) X(BUFFER, homes) X(BUFFER, in_runs) X(BUFFER, roots) X(BUFFER, rows)            \
    X(BUFFER, run) X(ACKS, acked_roots) X(ACKS, acked_edges)                                                           \
    X(OUTBOX, _acks) X(OUTBOX, _edge_ids) X(OUTBOX, branches) X(CONTEXT, inside) X(CONTEXT, outbox) X(CONTEXT, thread) \
    X(BOLT, _slot_context) X(BOLT, _task) X(BOLT, acked) X(BOLT, default) X(BOLT, held) X(BOLT, routes)                \
    X(BOLT, short_way)                                                                                                 \
    X(SPOUT, _plainly) X(SPOUT, _task) X(SPOUT, bucket) X(SPOUT, default) X(SPOUT, emits) X(SPOUT, now)                \
    X(SPOUT, routes) X(SPOUT, short_way)                                                                               \
    X(LEDGER, _entries) X(ENTRY, edges) X(ENTRY, failed) X(ENTRY, spout_task)                                          \
    X(ROTATING, _buckets) X(ROTATING, newest) X(TASK, _batch) X(TASK, backlog) X(TASK, inbox)                          \
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

/* Whether an object, which may be NULL, is exactly of a class; of it or a subclass; exactly a list; a dict. */
static inline int is(PyObject *object, int kind)
{
    return object != NULL && Py_TYPE(object) == types[kind];
}

static inline int is_a(PyObject *object, int kind)
{
    return is(object, kind) || (object != NULL && types[kind] != NULL && PyObject_TypeCheck(object, types[kind]));
}

static inline int is_tree(PyObject *object)
{
    return is(object, ROOT) || is(object, BRANCH) || is_a(object, TREE);
}

static inline int is_list(PyObject *object)
{
    return object != NULL && PyList_CheckExact(object);
}

static inline int is_dict(PyObject *object)
{
    return object != NULL && PyDict_CheckExact(object);
}

/* The value of a slot, a new reference; NULL without an error if the slot is empty. */
static inline PyObject *own(PyObject *object, Py_ssize_t offset)
{
    return Py_XNewRef(SLOT(object, offset));
}

/* Whether a class or function is `module`.`name`; -1 for an error. */
static int is_named(PyObject *object, const char *attribute, const char *module, const char *name)
{
    PyObject *its_module = PyObject_GetAttrString(object, "__module__"), *its_name = NULL;
    int same = -1;
    if (its_module != NULL && (its_name = PyObject_GetAttrString(object, attribute)))
        same = PyUnicode_Check(its_module) && PyUnicode_Check(its_name) &&
               !PyUnicode_CompareWithASCIIString(its_module, module) &&
               !PyUnicode_CompareWithASCIIString(its_name, name);
    Py_XDECREF(its_name);
    Py_XDECREF(its_module);
    return same;
}

/* The offset of a slot; -1 with an error if the class has no such slot. */
static Py_ssize_t offset_of(PyObject *cls, const char *name)
{
    PyObject *member = PyObject_GetAttrString(cls, name);
    if (member == NULL)
        return -1;
    Py_ssize_t offset = -1;
    if (Py_IS_TYPE(member, &PyMemberDescr_Type) && PyType_IsSubtype((PyTypeObject *)cls, PyDescr_TYPE(member))) {
        PyMemberDef *slot = ((PyMemberDescrObject *)member)->d_member;
        offset = slot->type == T_OBJECT_EX ? slot->offset : -1;
    }
    Py_DECREF(member);
    if (offset < 0)
        PyErr_Format(PyExc_TypeError, "%s of %R is no slot; build the core anew", name, cls);
    return offset;
}

static void note_complete(void);

/* Store the slot offsets of `cls`; returns `cls`, as a decorator does. */
static PyObject *laid_out(PyObject *module, PyObject *cls)
{
    int kind = KINDS, same = 0;
    while (PyType_Check(cls) && same == 0 && kind-- > 0)
        same = is_named(cls, "__name__", kinds[kind].module, kinds[kind].name);
    if (same < 0)
        return NULL;
    if (same == 0)
        return PyErr_Format(PyExc_TypeError, "the core does not know the class %R; build it anew", cls);
    int base = kinds[kind].base;
    if (base != KINDS && (!types[base] || !PyType_IsSubtype((PyTypeObject *)cls, types[base])))
        return PyErr_Format(PyExc_TypeError, "%R is no %s; build the core anew", cls, kinds[base].name);
    Py_ssize_t found[COUNT(slots)];
    for (size_t i = 0; i < COUNT(slots); i++)
        if (slots[i].kind == kind && (found[i] = offset_of(cls, slots[i].name)) < 0)
            return NULL;
    for (size_t i = 0; i < COUNT(slots); i++)
        if (slots[i].kind == kind)
            *slots[i].offset = found[i];
    Py_XSETREF(types[kind], (PyTypeObject *)Py_NewRef(cls));
    note_complete();
    return Py_NewRef(cls);
}

/* Globals of the modules of the Python functions. */

static PyObject *SETTLED, *UNTRACKED, *DEFAULT_STREAM, *MOST_ROWS, *LARGE_BYTES;

static const struct {
    const char *name;
    PyObject **place;
    PyTypeObject *type; /* NULL for a tree */
} globals[] = {{"SETTLED", &SETTLED, NULL},
               {"UNTRACKED", &UNTRACKED, NULL},
               {"DEFAULT_STREAM", &DEFAULT_STREAM, &PyUnicode_Type},
               {"MOST_ROWS", &MOST_ROWS, &PyLong_Type},
               {"LARGE_BYTES", &LARGE_BYTES, &PyLong_Type}};

static int is_complete; /* all globals are known, and all classes except the states', which many topologies lack */

static void note_complete(void)
{
    is_complete = 1;
    for (int kind = 0; kind < KINDS; kind++)
        is_complete &= kind == STATE || types[kind] != NULL;
    for (size_t i = 0; i < COUNT(globals); i++)
        is_complete &= *globals[i].place != NULL;
}

/* X(interned name) */
#define NAMES(X)                                                                                                       \
    X(_draw) X(_emit_picked) X(_emit_unusual) X(_is_new) X(_left) X(_ledger) X(_make) X(anchors) X(drained)            \
    X(edge_id) X(emit) X(init) X(message_id) X(subtree_acked) X(send) X(slot_context) X(stream) X(task_id) X(track)
#define DECLARE_NAME(name) static PyObject *s_##name;
NAMES(DECLARE_NAME)
static PyObject *id_bits;         /* 64 */
static PyObject *no_reason;       /* "" */
static PyObject *message_id_name; /* ("message_id",) */
static PyCFunction list_append;   /* the C function of list.append */

/* Set a TypeError for an object with an invalid slot, without running Python code; returns -1. */
static int wrong(PyObject *object)
{
    PyErr_Format(PyExc_TypeError, "a slot of a %s is empty or holds what the compiled core cannot use",
                 Py_TYPE(object)->tp_name);
    return -1;
}

/* The result of a function that changed nothing and leaves the call to Python. */
static PyObject long_way;
#define PYTHON (&long_way)

/* Slots that hold ints. */

#define MOST (1LL << 62) /* the largest absolute value of a counter */

static void
put(PyObject *object, Py_ssize_t offset, PyObject *value) /* steals the reference */
{
    PyObject *old = SLOT(object, offset);
    SLOT(object, offset) = value;
    Py_XDECREF(old);
}

/* Whether an object, which may be NULL, is an int within the range of a counter. */
static int is_number(PyObject *object, long long *number)
{
    int overflow;
    if (object == NULL || !PyLong_CheckExact(object))
        return 0;
    *number = PyLong_AsLongLongAndOverflow(object, &overflow);
    return !overflow && -MOST < *number && *number < MOST;
}

/* Whether an object, which may be NULL, is an id. */
static int is_id(PyObject *object, Id *id)
{
    if (object == NULL || !PyLong_CheckExact(object))
        return 0;
    *id = PyLong_AsUnsignedLongLong(object);
    if (*id != (Id)-1 || !PyErr_Occurred())
        return 1;
    PyErr_Clear(); /* it is negative or too large */
    return 0;
}

/* Add to the int in a slot; store the sum in `sum` unless that is NULL. No Python code runs. */
static int add(PyObject *object, Py_ssize_t offset, long long more, long long *sum)
{
    long long number;
    if (!is_number(SLOT(object, offset), &number))
        return wrong(object);
    PyObject *value = PyLong_FromLongLong(number + more);
    if (value == NULL)
        return -1;
    put(object, offset, value);
    if (sum != NULL)
        *sum = number + more;
    return 0;
}

/* XOR an id into the one in a slot; store the result in `result` unless that is NULL. */
static int xor_id(PyObject *object, Py_ssize_t offset, Id id, Id *result)
{
    Id mixed;
    if (!is_id(SLOT(object, offset), &mixed))
        return wrong(object);
    mixed ^= id;
    PyObject *value = PyLong_FromUnsignedLongLong(mixed);
    if (value == NULL)
        return -1;
    put(object, offset, value);
    if (result != NULL)
        *result = mixed;
    return 0;
}

/* Whether a slot holds the int zero. */
static int is_zero(PyObject *object, Py_ssize_t offset)
{
    PyObject *found = SLOT(object, offset);
    return found != NULL && PyLong_CheckExact(found) && !PyObject_IsTrue(found);
}

static int is_slots_thread(PyObject *context)
{
    PyObject *thread = SLOT(context, CONTEXT_thread);
    return thread != NULL && PyLong_CheckExact(thread) &&
           PyLong_AsUnsignedLongMask(thread) == PyThread_get_thread_ident();
}

/* The value of a dict's key, a new reference; NULL with or without an error. The key's own code may run. */
static PyObject *look_up(PyObject *dict, PyObject *key)
{
    Py_INCREF(dict);
    PyObject *found = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    Py_DECREF(dict);
    return found;
}

/* Tuples, routes and ports. */

static PyObject *new_of(int kind)
{
    return types[kind]->tp_alloc(types[kind], 0);
}

/* A new tuple of a route. */
static PyObject *new_tuple(PyObject *values, PyObject *route, PyObject *tree)
{
    PyObject *tup = new_of(TUPLE);
    if (tup != NULL) {
        SLOT(tup, TUPLE_values) = Py_NewRef(values);
        SLOT(tup, TUPLE__origin) = own(route, ROUTE_origin);
        SLOT(tup, TUPLE__tree) = Py_NewRef(tree);
    }
    return tup;
}

/* The route of a stream, a new reference, if `values` fit it; else NULL, with an error or without. */
static PyObject *route_of(PyObject *by_default, PyObject *routes, PyObject *stream, PyObject *values)
{
    long long arity;
    PyObject *route = NULL;
    if (stream == DEFAULT_STREAM)
        route = Py_XNewRef(by_default);
    else if (PyUnicode_CheckExact(stream) && is_dict(routes))
        route = look_up(routes, stream);
    if (is(route, ROUTE) && PyList_CheckExact(values) && is_number(SLOT(route, ROUTE_arity), &arity) &&
        PyList_GET_SIZE(values) == arity)
        return route;
    Py_XDECREF(route);
    return NULL;
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

/* hashing.stable_hash of one short ASCII text. With many keys it is faster than a cache: it touches no memory. */
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

/* An item of a list, a new reference; NULL without an error if there is none. */
static PyObject *item_of(PyObject *list, long long at)
{
    return is_list(list) && 0 <= at && at < PyList_GET_SIZE(list) ? Py_NewRef(PyList_GET_ITEM(list, at)) : NULL;
}

/* The port of a key of a fields grouping, a new reference; NULL, maybe with an error, if only `pick` can tell. */
static PyObject *port_of_key(PyObject *route, PyObject *keys, PyObject *values)
{
    long long at;
    PyObject *ports = SLOT(route, ROUTE_ports), *port = NULL;
    PyObject *key = is_number(SLOT(route, ROUTE_key_at), &at) ? item_of(values, at) : NULL;
    if (key == NULL || !is_list(ports) || !PyList_GET_SIZE(ports))
        goto end;
    if (SLOT(route, ROUTE_hashes) == Py_True && PyUnicode_CheckExact(key) && PyUnicode_IS_COMPACT_ASCII(key) &&
        PyUnicode_GET_LENGTH(key) <= SHORT_TEXT)
        port = item_of(ports, stable_hash(key) % PyList_GET_SIZE(ports));
    else if (is_dict(keys)) {
        Py_INCREF(ports); /* as in Python, which evaluates it before the key's own code runs */
        PyObject *index = look_up(keys, key);
        if (is_number(index, &at))
            port = item_of(ports, at);
        Py_XDECREF(index);
        Py_DECREF(ports);
    }
end:
    Py_XDECREF(key);
    return port;
}

/* The one port for `values`, a new reference. NULL with an error, or without one if only `choose` can tell. */
static PyObject *pick_port(PyObject *route, PyObject *values)
{
    PyObject *port = SLOT(route, ROUTE_only), *keys = SLOT(route, ROUTE_keys);
    if (port != Py_None)
        return Py_XNewRef(port);
    PyObject *pick = own(route, ROUTE_pick);
    port = NULL;
    if (pick == NULL || pick == Py_None)
        goto end;
    port = keys != Py_None ? port_of_key(route, keys, values) : PyObject_CallOneArg(pick, values);
    if (port == NULL &&
        (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_KeyError) || PyErr_ExceptionMatches(PyExc_TypeError))) {
        PyErr_Clear();
        port = PyObject_CallOneArg(pick, values);
    }
end:
    Py_XDECREF(pick);
    return port;
}

/* A new list of the value in a slot. */
static PyObject *list_of(PyObject *object, Py_ssize_t offset)
{
    PyObject *list = PyList_New(1);
    if (list != NULL && SLOT(object, offset) == NULL) {
        wrong(object);
        Py_CLEAR(list);
    }
    if (list != NULL)
        PyList_SET_ITEM(list, 0, own(object, offset));
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

/* Append to the list in a slot. No Python code runs. */
static int append_to(PyObject *object, Py_ssize_t offset, PyObject *item)
{
    return item != NULL && is_list(SLOT(object, offset)) ? PyList_Append(SLOT(object, offset), item) : wrong(object);
}

/* Task.send and Outbox.send: tuples that leave the slot. Only the slot's own thread may call it. */

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
    PyObject *ids = own(outbox, OUTBOX__edge_ids);
    PyObject *edge = ids != NULL && PyIter_Check(ids) ? PyIter_Next(ids) : NULL;
    Py_XDECREF(ids);
    return edge != NULL || PyErr_Occurred() ? edge : PyObject_CallMethodNoArgs(outbox, s_edge_id);
}

/* Travelling.home, of a Root or a Branch. */
static PyObject *home_of(PyObject *tree)
{
    PyObject *task = is(tree, ROOT) ? own(tree, ROOT_task) : NULL;
    PyObject *home = task != NULL ? PyObject_GetAttr(task, s_task_id) : own(tree, BRANCH_home_task);
    Py_XDECREF(task);
    return home;
}

/* Root.leave and Branch.leave, without the id of the root. */
static int leave(PyObject *tree, Id edge)
{
    if (is(tree, ROOT) && is_zero(tree, TRAVELLING_root_id)) {
        PyObject *task = own(tree, ROOT_task);
        PyObject *nothing = task == NULL ? NULL : PyObject_CallMethodOneArg(task, s_track, tree);
        Py_XDECREF(task);
        if (nothing == NULL)
            return PyErr_Occurred() ? -1 : wrong(tree);
        Py_DECREF(nothing);
    }
    return xor_id(tree, TRAVELLING_edge, edge, NULL);
}

/* Outbox._anchor: `tree`, a Root or a Branch, leaves along a new edge. */
static int anchor(PyObject *outbox, PyObject *buffer, PyObject *tree)
{
    PyObject *home = NULL, *edge = next_edge(outbox);
    Id id;
    int done = -1;
    if (edge == NULL)
        return -1;
    if (!is_id(edge, &id))
        done = wrong(outbox);
    else if (leave(tree, id) == 0 && ((home = home_of(tree)) || (!PyErr_Occurred() && wrong(tree) == 0)) &&
             append_to(buffer, BUFFER_roots, SLOT(tree, TRAVELLING_root_id)) == 0 &&
             append_to(buffer, BUFFER_homes, home) == 0)
        done = append_to(buffer, BUFFER_edges, edge);
    Py_XDECREF(home);
    Py_DECREF(edge);
    return done;
}

/* One more tuple in the run at the end of a buffer. 1 if done, 0 if this is for Python, -1 for an error. */
static int lengthen_run(PyObject *counts)
{
    long long count;
    Py_ssize_t last = PyList_GET_SIZE(counts) - 1;
    if (!is_number(PyList_GET_ITEM(counts, last), &count))
        return 0;
    PyObject *more = PyLong_FromLongLong(count + 1);
    return more == NULL || PyList_SetItem(counts, last, more) < 0 ? -1 : 1;
}

/* Begin another run at the end of a buffer, except for storing it in `run`. */
static int begin_run(PyObject *outbox, PyObject *buffer, PyObject *tree)
{
    Py_INCREF(outbox);
    int done = anchor(outbox, buffer, tree);
    Py_DECREF(outbox);
    if (done < 0)
        return -1;
    PyObject *one = PyLong_FromLong(1);
    done = append_to(buffer, BUFFER_counts, one);
    Py_DECREF(one);
    return done;
}

/* Put `values` into a buffer in runs that is not full. 1 if done, 0 if this is for Python, -1 for an error. */
static int send_short(PyObject *context, PyObject *buffer, PyObject *values, PyObject *tree)
{
    PyObject *rows = SLOT(buffer, BUFFER_rows), *counts = SLOT(buffer, BUFFER_counts);
    PyObject *outbox = SLOT(context, CONTEXT_outbox);
    if (!is_list(rows) || PyList_GET_SIZE(rows) + 1 >= PyLong_AsSsize_t(MOST_ROWS) || !is_list(counts) ||
        !PyList_GET_SIZE(counts) || !are_small_atoms(values))
        return 0;
    if (tree == SLOT(buffer, BUFFER_run)) {
        int done = lengthen_run(counts);
        return done <= 0 ? done : PyList_Append(rows, values) < 0 ? -1 : 1;
    }
    if (SLOT(buffer, BUFFER_in_runs) != Py_True || !(is(tree, ROOT) || is(tree, BRANCH)) || !is_a(outbox, OUTBOX))
        return 0;
    if (begin_run(outbox, buffer, tree) < 0 || append_to(buffer, BUFFER_rows, values) < 0)
        return -1;
    put(buffer, BUFFER_run, Py_NewRef(tree)); /* last: dropping the old value may run Python code */
    return 1;
}

static int send(PyObject *context, PyObject *task, PyObject *route, PyObject *buffer, PyObject *values, PyObject *tree)
{
    int done = send_short(context, buffer, values, tree);
    if (done != 0)
        return done;
    PyObject *nothing = PyObject_CallMethodObjArgs(task, s_send, route, buffer, values, tree, NULL);
    Py_XDECREF(nothing);
    return nothing == NULL ? -1 : 0;
}

/* Trees that end. */

/* SpoutTask.settle(root, acked=True), for a pending root that is not in the ledger. */
static int ack_root(PyObject *task, PyObject *root)
{
    PyObject *bucket = own(root, ROOT_bucket);
    int done = is_dict(bucket) && is_list(SLOT(task, SOURCE_acked)) ? PyDict_DelItem(bucket, root) : wrong(root);
    Py_XDECREF(bucket);
    if (done < 0)
        return -1;
    put(root, ROOT_bucket, Py_NewRef(Py_None));
    return append_to(task, SOURCE_acked, root);
}

/* Root.drained, if its task is a SpoutTask; otherwise 0, and nothing is changed. */
static int drain_root(PyObject *root)
{
    PyObject *task = own(root, ROOT_task), *id = own(root, TRAVELLING_root_id), *edge = own(root, TRAVELLING_edge);
    int done = 0;
    if (!is_a(task, SOURCE) || id == NULL)
        goto end;
    if (is_zero(root, TRAVELLING_root_id))
        done = SLOT(root, ROOT_bucket) != Py_None && ack_root(task, root) < 0 ? -1 : 1;
    else if (edge != NULL) {
        PyObject *nothing = PyObject_CallMethodObjArgs(task, s_subtree_acked, id, edge, NULL);
        Py_XDECREF(nothing);
        done = nothing == NULL ? -1 : 1;
    }
end:
    Py_XDECREF(task);
    Py_XDECREF(id);
    Py_XDECREF(edge);
    return done;
}

/* The bucket of a RotatingMap that has an id, a new reference; else NULL, with an error or without. */
static PyObject *bucket_of(PyObject *rotating, PyObject *id)
{
    PyObject *buckets = is_a(rotating, ROTATING) ? own(rotating, ROTATING__buckets) : NULL, *bucket = NULL;
    if (!is_list(buckets)) {
        PyErr_SetString(PyExc_TypeError, "the compiled core needs a RotatingMap with a list of buckets");
        goto end;
    }
    for (Py_ssize_t i = 0; (bucket = item_of(buckets, i)); i++) {
        int found = is_dict(bucket) ? PyDict_Contains(bucket, id) : wrong(rotating);
        if (found > 0)
            break;
        Py_CLEAR(bucket);
        if (found < 0)
            break;
    }
end:
    Py_XDECREF(buckets);
    return bucket;
}

/* Branch.drained and Outbox.close, if there is an AckBuffer for its home; otherwise 0, and nothing is changed. */
static int drain_branch(PyObject *branch)
{
    PyObject *outbox = own(branch, BRANCH_outbox), *id = own(branch, TRAVELLING_root_id);
    PyObject *home = own(branch, BRANCH_home_task), *acks = NULL, *bucket = NULL;
    int done = 0;
    if (!is_a(outbox, OUTBOX) || id == NULL || home == NULL || SLOT(branch, TRAVELLING_edge) == NULL ||
        SLOT(branch, BRANCH_failed) != Py_False || is_zero(branch, TRAVELLING_edge) ||
        !is_dict(SLOT(outbox, OUTBOX__acks)))
        goto end;
    acks = look_up(SLOT(outbox, OUTBOX__acks), home);
    if (is(acks, ACKS) && is_list(SLOT(acks, ACKS_acked_roots)) && is_list(SLOT(acks, ACKS_acked_edges))) {
        bucket = bucket_of(SLOT(outbox, OUTBOX_branches), id);
        done = PyErr_Occurred() || (bucket != NULL && PyDict_DelItem(bucket, id) < 0) ||
                       append_to(acks, ACKS_acked_roots, id) < 0 ||
                       append_to(acks, ACKS_acked_edges, SLOT(branch, TRAVELLING_edge)) < 0
                   ? -1
                   : 1;
        put(branch, TRAVELLING_edge, PyLong_FromLong(0)); /* it is sent once; small ints are preallocated */
    }
    else if (PyErr_Occurred())
        done = -1;
end:
    Py_XDECREF(outbox);
    Py_XDECREF(id);
    Py_XDECREF(home);
    Py_XDECREF(acks);
    Py_XDECREF(bucket);
    return done;
}

/* SlotContext.leave; passes `result` through. */
static PyObject *left(PyObject *context, PyObject *result)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if (add(context, CONTEXT_inside, -1, NULL) == 0) {
        PyErr_Restore(kind, value, traceback);
        return result;
    }
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_XDECREF(result);
    return NULL;
}

/* The end of BoltCollector.ack: the last unsettled tuple of `tree` has been acked. */
static PyObject *drain(PyObject *collector, PyObject *tree)
{
    PyObject *context = own(collector, BOLT__slot_context), *result = NULL;
    if (!is_a(context, CONTEXT))
        wrong(collector);
    else if (!is_slots_thread(context)) {
        PyObject *drained = PyObject_GetAttr(tree, s_drained);
        result = drained == NULL ? NULL : PyObject_CallMethodOneArg(collector, s__make, drained);
        Py_XDECREF(drained);
    } else if (add(context, CONTEXT_inside, 1, NULL) == 0) {
        int done = is(tree, ROOT) ? drain_root(tree) : is(tree, BRANCH) ? drain_branch(tree) : 0;
        if (done >= 0)
            result = done ? Py_NewRef(Py_None) : PyObject_CallMethodNoArgs(tree, s_drained);
        result = left(context, result);
    }
    Py_XDECREF(context);
    return result;
}

/* The counterparts of Python functions. Each returns its result, NULL with an error, or `PYTHON`: nothing is changed,
   call the Python function. `args` are those of a vectorcall, with `self` first. */

typedef PyObject *(*Short)(PyObject *const *args, Py_ssize_t count, PyObject *names);

/* Read the keyword arguments `stream` and `name`; false if there are others. */
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

/* Whether an anchor still belongs to `tree`: another thread, or the user's own `__hash__`, may have settled it. */
static int is_still(PyObject *anchor, PyObject *tree)
{
    return anchor == Py_None || SLOT(anchor, TUPLE__tree) == tree;
}

/* Python refuses a settled anchor, and drops the emit if the anchor was rolled back. */
static PyObject *emit_unusual(PyObject *self, PyObject *stream, PyObject *anchors, PyObject *values)
{
    return PyObject_CallMethodObjArgs(self, s__emit_unusual, stream, anchors, values, NULL);
}

/* Emit to a task of this slot. */
static PyObject *bolt_emit_near(PyObject *self, PyObject *route, PyObject *port, PyObject *append, PyObject *values,
                                PyObject *tree, PyObject *anchors, PyObject *stream)
{
    PyObject *result = list_of(port, PORT_task_id), *tup = result == NULL ? NULL : new_tuple(values, route, tree);
    int done = -1;
    if (tup == NULL)
        goto end;
    if (!is_still(anchors, tree)) {
        Py_SETREF(result, emit_unusual(self, stream, anchors, values));
        Py_DECREF(tup);
        return result;
    }
    if (add(tree, TREE_unsettled, 1, NULL) == 0) /* before any thread can see the tuple */
        done = call_append(append, tup);
end:
    Py_XDECREF(tup);
    if (done < 0)
        Py_CLEAR(result);
    return emitted(route, result);
}

/* Emit to a task of another slot, by the slot's own thread; PYTHON if this is another one. */
static PyObject *bolt_emit_far(PyObject *self, PyObject *route, PyObject *port, PyObject *buffer, PyObject *values,
                               PyObject *tree, PyObject *anchors, PyObject *stream)
{
    PyObject *context = own(self, BOLT__slot_context), *task = own(self, BOLT__task);
    PyObject *result = list_of(port, PORT_task_id);
    if (result == NULL)
        ;
    else if (!is_still(anchors, tree))
        Py_SETREF(result, emit_unusual(self, stream, anchors, values));
    else if (!is_a(context, CONTEXT) || task == NULL || !is_slots_thread(context))
        Py_SETREF(result, PYTHON);
    else if (add(context, CONTEXT_inside, 1, NULL) < 0) /* SlotContext.enter */
        Py_CLEAR(result);
    else {
        if (send(context, task, route, buffer, values, tree) < 0)
            Py_CLEAR(result);
        result = emitted(route, left(context, result));
    }
    Py_XDECREF(task);
    Py_XDECREF(context);
    return result;
}

/* The end of BoltCollector.emit, when the port is known. */
static PyObject *bolt_emit_to(PyObject *self, PyObject *route, PyObject *port, PyObject *values, PyObject *tree,
                              PyObject *anchors, PyObject *stream)
{
    if (!is_still(anchors, tree))
        return emit_unusual(self, stream, anchors, values);
    PyObject *append = NULL, *buffer = NULL, *result = PYTHON;
    if (is_a(port, PORT)) {
        append = own(port, PORT_append);
        buffer = own(port, PORT_buffer);
    }
    if (append == Py_None && is(buffer, BUFFER))
        result = bolt_emit_far(self, route, port, buffer, values, tree, anchors, stream);
    else if (append != NULL && append != Py_None)
        result = bolt_emit_near(self, route, port, append, values, tree, anchors, stream);
    if (result == PYTHON)
        result = PyObject_CallMethodObjArgs(self, s__emit_picked, route, port, values, anchors, NULL);
    Py_XDECREF(buffer);
    Py_XDECREF(append);
    return result;
}

/* Task.send(route, buffer, values, tree) */
static PyObject *task_send(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 5 || names != NULL || !is(args[2], BUFFER) || !PyList_CheckExact(args[3]))
        return PYTHON;
    PyObject *context = PyObject_GetAttr(args[0], s_slot_context);
    if (context == NULL)
        return NULL;
    int done = is_a(context, CONTEXT) ? send_short(context, args[2], args[3], args[4]) : 0;
    Py_DECREF(context);
    return done < 0 ? NULL : done ? Py_NewRef(Py_None) : PYTHON;
}

/* BoltCollector.emit(values, anchors=..., stream=...) and .emit(tup, values) */
static PyObject *bolt_emit(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = args[0], *anchors = Py_None, *stream = DEFAULT_STREAM, *tree = UNTRACKED;
    if (SLOT(self, BOLT_short_way) != Py_True || count < 2 || count > 3)
        return PYTHON;
    if (count == 3 && !is(anchors = args[1], TUPLE))
        return PYTHON;
    PyObject *values = args[count - 1];
    if (!read_keywords(args + count, names, count == 2 ? s_anchors : NULL, &anchors, &stream))
        return PYTHON;
    if (anchors != Py_None) {
        tree = is(anchors, TUPLE) ? SLOT(anchors, TUPLE__tree) : NULL;
        if (tree == SETTLED || !is_tree(tree) || is(tree, ROLLED_BACK))
            return PYTHON;
    }
    Py_INCREF(tree); /* finding the port may run Python code */
    PyObject *route = route_of(SLOT(self, BOLT_default), SLOT(self, BOLT_routes), stream, values);
    PyObject *port = route == NULL ? NULL : pick_port(route, values), *result = PyErr_Occurred() ? NULL : PYTHON;
    if (port != NULL)
        result = bolt_emit_to(self, route, port, values, tree, anchors, stream);
    Py_XDECREF(port);
    Py_XDECREF(route);
    Py_DECREF(tree);
    return result;
}

/* BoltCollector.ack(tup) */
static PyObject *bolt_ack(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *self = args[0];
    if (SLOT(self, BOLT_short_way) != Py_True || count != 2 || names != NULL || !is(args[1], TUPLE))
        return PYTHON;
    PyObject *tup = args[1], *tree = SLOT(tup, TUPLE__tree), *held = SLOT(self, BOLT_held);
    if (tree == SETTLED || !is_tree(tree) || !is_dict(held) || PyDict_GET_SIZE(held))
        return PYTHON;
    SLOT(tup, TUPLE__tree) = Py_NewRef(SETTLED); /* of two threads that ack at once, one gets the tree */
    long long unsettled;
    PyObject *result = NULL;
    if (add(self, BOLT_acked, 1, NULL) == 0 && add(tree, TREE_unsettled, -1, &unsettled) == 0)
        result = unsettled ? Py_NewRef(Py_None) : drain(self, tree);
    Py_DECREF(tree);
    return result;
}

static PyObject *new_root(PyObject *self, PyObject *message_id)
{
    PyObject *root = new_of(ROOT);
    if (root != NULL) {
        SLOT(root, TREE_unsettled) = PyLong_FromLong(1); /* small ints are there already: this cannot fail */
        SLOT(root, TRAVELLING_root_id) = PyLong_FromLong(0);
        SLOT(root, ROOT_task) = own(self, SPOUT__task);
        SLOT(root, ROOT_message_id) = Py_NewRef(message_id);
        SLOT(root, ROOT_emitted_at) = own(self, SPOUT_now);
        SLOT(root, ROOT_bucket) = own(self, SPOUT_bucket);
    }
    return root;
}

/* A tuple of a new tree goes to a task of this slot. */
static int launch(PyObject *self, PyObject *route, PyObject *append, PyObject *values, PyObject *message_id)
{
    PyObject *root = new_root(self, message_id);
    PyObject *tup = root == NULL ? NULL : new_tuple(values, route, root);
    PyObject *bucket = tup == NULL ? NULL : own(root, ROOT_bucket);
    int done = -1;
    if (tup != NULL && !is_dict(bucket))
        wrong(self);
    else if (tup != NULL && PyDict_SetItem(bucket, root, Py_None) == 0)
        done = call_append(append, tup); /* after its tree is pending: before that no thread may see it */
    Py_XDECREF(bucket);
    Py_XDECREF(tup);
    Py_XDECREF(root);
    return done;
}

/* The end of SpoutCollector.emit, when the port is known. */
static PyObject *spout_emit_to(PyObject *self, PyObject *route, PyObject *port, PyObject *values, PyObject *message_id)
{
    PyObject *append = is_a(port, PORT) ? own(port, PORT_append) : NULL, *result;
    if (append == NULL || append == Py_None)
        result = PyObject_CallMethodObjArgs(self, s__emit_picked, route, port, values, message_id, NULL);
    else {
        result = list_of(port, PORT_task_id);
        if (result != NULL &&
            (launch(self, route, append, values, message_id) < 0 || add(self, SPOUT_emits, 1, NULL) < 0))
            Py_CLEAR(result);
        result = emitted(route, result);
    }
    Py_XDECREF(append);
    return result;
}

/* Whether a message was never emitted before, so that it is executed; -1 for an error. */
static int is_new_message(PyObject *self, PyObject *message_id)
{
    if (SLOT(self, SPOUT__plainly) == Py_True)
        return 1;
    PyObject *is_new = PyObject_CallMethodOneArg(self, s__is_new, message_id);
    Py_XDECREF(is_new); /* only its address is compared */
    return is_new == NULL ? -1 : is_new == Py_True;
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
    if (message_id == Py_None)
        return PYTHON;
    PyObject *route = route_of(SLOT(self, SPOUT_default), SLOT(self, SPOUT_routes), stream, values);
    int is_new = route == NULL ? 0 : is_new_message(self, message_id);
    PyObject *port = is_new > 0 ? pick_port(route, values) : NULL, *result = PyErr_Occurred() ? NULL : PYTHON;
    if (port != NULL)
        result = spout_emit_to(self, route, port, values, message_id);
    Py_XDECREF(port);
    Py_XDECREF(route);
    return result;
}

/* Call `refused` with the current error, for a message that could not be emitted. */
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

/* The `append` of the only port of a spout's default stream, a new reference, and the route, too; NULL if that is no task
   of this slot, or something else is to be asked. */
static PyObject *only_append(PyObject *self, PyObject *values, PyObject **route)
{
    PyObject *port, *append = NULL;
    if (SLOT(self, SPOUT_short_way) != Py_True || SLOT(self, SPOUT__plainly) != Py_True)
        return NULL;
    if (!(*route = route_of(SLOT(self, SPOUT_default), NULL, DEFAULT_STREAM, values)))
        return NULL;
    if (is_a(port = SLOT(*route, ROUTE_only), PORT) && SLOT(port, PORT_append) != Py_None)
        append = own(port, PORT_append);
    if (append == NULL)
        Py_CLEAR(*route);
    return append;
}

/* (*where, number) */
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

/* The same, without checks that only `emit` needs. */
static int emit_plainly(PyObject *const *args)
{
    PyObject *route, *append = only_append(args[0], args[1], &route);
    if (append == NULL)
        return emit_one(args);
    int done = launch(args[0], route, append, args[1], args[2]);
    if (done == 0)
        done = add(args[0], SPOUT_emits, 1, NULL) < 0 || add(route, ROUTE_emitted, 1, NULL) < 0 ? -1 : 0;
    Py_DECREF(append);
    Py_DECREF(route);
    return done;
}

/* spout_collector.emit_numbered(collector, rows, where, first, refused) */
static PyObject *emit_numbered(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    long long first;
    if (count != 5 || names != NULL || !is(args[0], SPOUT) || !PyList_CheckExact(args[1]) ||
        !PyTuple_CheckExact(args[2]) || !is_number(args[3], &first))
        return PYTHON;
    int done = 0;
    for (Py_ssize_t i = 0; done == 0 && i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *emit[] = {args[0], Py_NewRef(PyList_GET_ITEM(args[1], i)), numbered(args[2], first + i)};
        if (emit[2] == NULL)
            done = -1;
        else if (emit_plainly(emit) < 0)
            done = tell_refused(args[4], emit[2], emit[1]);
        Py_DECREF(emit[1]);
        Py_XDECREF(emit[2]);
    }
    return done < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *new_entry(PyObject *edges, PyObject *spout_task)
{
    PyObject *entry = new_of(ENTRY);
    if (entry != NULL) {
        SLOT(entry, ENTRY_edges) = Py_NewRef(edges);
        SLOT(entry, ENTRY_spout_task) = Py_NewRef(spout_task);
        SLOT(entry, ENTRY_failed) = Py_NewRef(Py_False);
    }
    return entry;
}

/* AckLedger.init, for a root without an entry, which is nearly every root. */
static int begin_entry(PyObject *ledger, PyObject *id, PyObject *edges, PyObject *task_id)
{
    PyObject *entries = own(ledger, LEDGER__entries), *newest = NULL, *entry = NULL, *nothing = NULL;
    PyObject *bucket = bucket_of(entries, id);
    int done = -1;
    if (PyErr_Occurred())
        goto end;
    newest = own(entries, ROTATING_newest);
    if (bucket != NULL) {
        nothing = PyObject_CallMethodObjArgs(ledger, s_init, id, edges, task_id, NULL);
        done = nothing == NULL ? -1 : 0;
    }
    else if (!is_dict(newest))
        wrong(entries);
    else if ((entry = new_entry(edges, task_id)))
        done = PyDict_SetItem(newest, id, entry);
end:
    Py_XDECREF(nothing);
    Py_XDECREF(entry);
    Py_XDECREF(newest);
    Py_XDECREF(bucket);
    Py_XDECREF(entries);
    return done;
}

/* A random id that is not zero and that no root in `left` has. */
static PyObject *draw_id(PyObject *self, PyObject *left)
{
    Id number;
    PyObject *id = PyObject_CallMethodOneArg(self, s__draw, id_bits);
    if (id != NULL && !is_id(id, &number)) {
        PyErr_Format(PyExc_TypeError, "the source of chance gave a %s for an id", Py_TYPE(id)->tp_name);
        Py_CLEAR(id);
    }
    for (int is_taken = 1; id != NULL && is_taken;) {
        is_taken = number == 0 ? 1 : PyDict_Contains(left, id);
        if (is_taken) /* after the largest number comes 0 */
            Py_SETREF(id, is_taken < 0 ? NULL : PyLong_FromUnsignedLongLong(++number));
    }
    return id;
}

/* SpoutTask.track(root), for a pending root. */
static PyObject *track(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 2 || names != NULL || !is(args[1], ROOT) || !is_dict(SLOT(args[1], ROOT_bucket)))
        return PYTHON;
    PyObject *self = args[0], *root = args[1], *id = NULL, *here = NULL, *outbox = NULL, *result = NULL;
    PyObject *left = PyObject_GetAttr(self, s__left), *ledger = PyObject_GetAttr(self, s__ledger);
    PyObject *context = PyObject_GetAttr(self, s_slot_context), *task_id = PyObject_GetAttr(self, s_task_id);
    if (!left || !ledger || !context || !task_id)
        goto end;
    outbox = is_a(context, CONTEXT) ? own(context, CONTEXT_outbox) : NULL;
    if (!is_dict(left) || !is_a(ledger, LEDGER) || !is_a(outbox, OUTBOX) || !is_slots_thread(context)) {
        result = PYTHON;
        goto end;
    }
    if (!(id = draw_id(self, left)) || !(here = next_edge(outbox)))
        goto end;
    if (!is_zero(root, TRAVELLING_root_id)) { /* another thread was first */
        result = Py_NewRef(Py_None);
        goto end;
    }
    put(root, TRAVELLING_root_id, Py_NewRef(id));
    put(root, TRAVELLING_edge, Py_NewRef(here));
    if (PyDict_SetItem(left, id, root) == 0 && begin_entry(ledger, id, here, task_id) == 0)
        result = Py_NewRef(Py_None);
end:
    Py_XDECREF(here);
    Py_XDECREF(id);
    Py_XDECREF(outbox);
    Py_XDECREF(task_id);
    Py_XDECREF(context);
    Py_XDECREF(ledger);
    Py_XDECREF(left);
    return result;
}

/* The end of a tree whose subtrees have all drained: SpoutTask.settle, and AckLedger.forget. */
static int end_tree(PyObject *self, PyObject *left, PyObject *newest, PyObject *id, PyObject *root)
{
    if (PyDict_DelItem(newest, id) < 0 || ack_root(self, root) < 0)
        return -1;
    put(root, ROOT_why, Py_NewRef(no_reason));
    return PyDict_DelItem(left, id);
}

/* SpoutTask.subtree_acked(root_id, edges), if the root is in the newest bucket of the ledger. */
static PyObject *subtree_acked(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    Id edges;
    if (count != 3 || names != NULL || !PyLong_CheckExact(args[1]) || !is_id(args[2], &edges))
        return PYTHON;
    PyObject *self = args[0], *id = args[1], *entries = NULL, *newest = NULL, *root = NULL, *entry = NULL;
    PyObject *left = PyObject_GetAttr(self, s__left), *ledger = left == NULL ? NULL : PyObject_GetAttr(self, s__ledger);
    PyObject *result = NULL;
    if (ledger == NULL)
        goto end;
    result = PYTHON;
    entries = is_a(ledger, LEDGER) ? own(ledger, LEDGER__entries) : NULL;
    newest = is_a(entries, ROTATING) ? own(entries, ROTATING_newest) : NULL;
    if (!is_dict(left) || !is_dict(newest))
        goto end;
    if (!(root = look_up(left, id)))
        result = Py_NewRef(Py_None);
    else if (!(entry = look_up(newest, id)) || !is(entry, ENTRY) || !is(root, ROOT) ||
             !is_dict(SLOT(root, ROOT_bucket)) || !SLOT(entry, ENTRY_spout_task) ||
             SLOT(entry, ENTRY_spout_task) == Py_None)
        ;
    else if (xor_id(entry, ENTRY_edges, edges, &edges) == 0 &&
             (edges || end_tree(self, left, newest, id, root) == 0))
        result = Py_NewRef(Py_None);
end:
    if (PyErr_Occurred() && result != NULL) {
        if (result != PYTHON)
            Py_DECREF(result);
        result = NULL;
    }
    Py_XDECREF(entry);
    Py_XDECREF(root);
    Py_XDECREF(newest);
    Py_XDECREF(entries);
    Py_XDECREF(ledger);
    Py_XDECREF(left);
    return result;
}

static PyObject *new_branch(PyObject *outbox, PyObject *id, PyObject *home)
{
    PyObject *branch = new_of(BRANCH);
    if (branch != NULL) {
        SLOT(branch, TREE_unsettled) = PyLong_FromLong(0); /* small ints are there already: this cannot fail */
        SLOT(branch, TRAVELLING_edge) = PyLong_FromLong(0);
        SLOT(branch, TRAVELLING_root_id) = Py_NewRef(id);
        SLOT(branch, BRANCH_home_task) = Py_NewRef(home);
        SLOT(branch, BRANCH_outbox) = Py_NewRef(outbox);
        SLOT(branch, BRANCH_failed) = Py_NewRef(Py_False);
    }
    return branch;
}

/* Outbox.enter, and then `count` more tuples. */
static PyObject *enter(PyObject *outbox, PyObject *id, PyObject *home, PyObject *edge, Py_ssize_t count)
{
    PyObject *branches = own(outbox, OUTBOX_branches), *bucket = bucket_of(branches, id), *newest = NULL;
    PyObject *branch = bucket == NULL ? NULL : look_up(bucket, id);
    Id number;
    if (PyErr_Occurred())
        goto end;
    if (branch == NULL) {
        newest = own(branches, ROTATING_newest);
        if (!is_dict(newest))
            wrong(branches);
        else if ((branch = new_branch(outbox, id, home)) && PyDict_SetItem(newest, id, branch) < 0)
            Py_CLEAR(branch);
    }
    if (branch != NULL && (!is(branch, BRANCH) || !is_id(edge, &number))) {
        wrong(branches);
        Py_CLEAR(branch);
    }
    if (branch != NULL &&
        (xor_id(branch, TRAVELLING_edge, number, NULL) < 0 || add(branch, TREE_unsettled, count, NULL) < 0))
        Py_CLEAR(branch);
end:
    Py_XDECREF(newest);
    Py_XDECREF(bucket);
    Py_XDECREF(branches);
    return branch;
}

enum { ROOTS, HOMES, EDGES, COUNTS, COLUMNS };

/* The columns of anchors as lists of our own. 1 if done, 0 if this is for Python, -1 for an error. */
static int columns_of(PyObject *anchors, PyObject **columns)
{
    if (!PyTuple_CheckExact(anchors) || PyTuple_GET_SIZE(anchors) != COLUMNS)
        return 0;
    for (int i = 0; i < COLUMNS; i++)
        if (!PyObject_CheckBuffer(PyTuple_GET_ITEM(anchors, i)) && !PyList_CheckExact(PyTuple_GET_ITEM(anchors, i)))
            return 0; /* an iterator, for example, can be read only once */
    for (int i = 0; i < COLUMNS; i++)
        if (!(columns[i] = PySequence_List(PyTuple_GET_ITEM(anchors, i))))
            return -1;
    return 1;
}

/* Whether the columns have at most `height` rows. */
static int are_of(PyObject **columns, Py_ssize_t height)
{
    long long count;
    Id id;
    for (int i = 1; i < COLUMNS; i++)
        if (PyList_GET_SIZE(columns[i]) != PyList_GET_SIZE(columns[0]))
            return 0;
    for (Py_ssize_t run = 0; run < PyList_GET_SIZE(columns[0]); run++) {
        if (!PyLong_CheckExact(PyList_GET_ITEM(columns[ROOTS], run)) ||
            !is_id(PyList_GET_ITEM(columns[EDGES], run), &id) ||
            !is_number(PyList_GET_ITEM(columns[COUNTS], run), &count) || count < 0 || count > height)
            return 0;
        height -= (Py_ssize_t)count;
    }
    return 1;
}

/* The rows from `at` up to `until` as tuples of a tree, put into the inbox. */
static int fill_run(PyObject *inbox, PyObject *origin, PyObject *rows, Py_ssize_t at, Py_ssize_t until, PyObject *tree)
{
    int done = 0;
    for (; done == 0 && at < until; at++) {
        PyObject *row = item_of(rows, at), *tup = row == NULL ? NULL : new_of(TUPLE);
        if (tup != NULL) {
            SLOT(tup, TUPLE_values) = Py_NewRef(row);
            SLOT(tup, TUPLE__origin) = Py_NewRef(origin);
            SLOT(tup, TUPLE__tree) = Py_NewRef(tree);
        }
        else if (row == NULL)
            PyErr_SetString(PyExc_IndexError, "the rows have become fewer");
        done = tup == NULL ? -1 : PyList_Append(inbox, tup);
        Py_XDECREF(tup);
        Py_XDECREF(row);
    }
    return done;
}

/* arrivals._fill(inbox, origin, rows, anchors, outbox); `anchors` are (roots, homes, edges, counts). */
static PyObject *fill(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 5 || names != NULL || !PyList_CheckExact(args[0]) || !PyList_CheckExact(args[2]) ||
        !is_a(args[4], OUTBOX))
        return PYTHON;
    PyObject *columns[COLUMNS] = {NULL}, *result = PYTHON;
    int done = columns_of(args[3], columns);
    if (done <= 0 || !are_of(columns, PyList_GET_SIZE(args[2]))) {
        result = done < 0 ? NULL : PYTHON;
        goto end;
    }
    done = 0;
    for (Py_ssize_t run = 0, at = 0, until; done == 0 && run < PyList_GET_SIZE(columns[0]); run++, at = until) {
        until = at + PyLong_AsSsize_t(PyList_GET_ITEM(columns[COUNTS], run));
        PyObject *id = PyList_GET_ITEM(columns[ROOTS], run), *home = PyList_GET_ITEM(columns[HOMES], run);
        PyObject *branch = enter(args[4], id, home, PyList_GET_ITEM(columns[EDGES], run), until - at);
        done = branch == NULL ? -1 : fill_run(args[0], args[1], args[2], at, until, branch);
        Py_XDECREF(branch);
    }
    result = done < 0 ? NULL : Py_NewRef(Py_None);
end:
    for (int i = 0; i < COLUMNS; i++)
        Py_XDECREF(columns[i]);
    return result;
}

/* BoltTask._next_batch(), if the whole queue is one batch. */
static PyObject *next_batch(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    PyObject *inbox = SLOT(args[0], TASK_inbox), *backlog = SLOT(args[0], TASK_backlog);
    long long most;
    if (count != 1 || names != NULL || !is_list(inbox) || !is_list(backlog) || PyList_GET_SIZE(backlog) ||
        !is_number(SLOT(args[0], TASK__batch), &most) || PyList_GET_SIZE(inbox) > most)
        return PYTHON;
    Py_INCREF(inbox);
    PyObject *batch = PyList_GetSlice(inbox, 0, PyList_GET_SIZE(inbox));
    if (batch != NULL && PyList_SetSlice(inbox, 0, PyList_GET_SIZE(batch), NULL) < 0)
        Py_CLEAR(batch);
    Py_DECREF(inbox);
    return batch;
}

/* Whether a value is immutable, so that it is kept without a copy. */
static int is_atom(PyObject *value)
{
    return value == Py_None || PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBool_Check(value) || PyBytes_CheckExact(value);
}

/* KeyValueState.get(key[, default]), if the value is an atom; a deleted key is left to Python. */
static PyObject *state_get(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count < 2 || count > 3)
        return PYTHON;
    PyObject *value = NULL;
    static Py_ssize_t *const layers[] = {&STATE__changed, &STATE__prepared, &STATE__committed};
    for (size_t i = 0; value == NULL && i < COUNT(layers); i++) {
        PyObject *layer = SLOT(args[0], *layers[i]);
        if (!is_dict(layer))
            return PYTHON;
        if (layers[i] == &STATE__prepared && !PyDict_GET_SIZE(layer))
            continue; /* which usually saves one run of the key's own code */
        value = look_up(layer, args[1]);
        if (value == NULL && PyErr_Occurred())
            return NULL;
    }
    if (value == NULL)
        return Py_NewRef(count == 3 ? args[2] : Py_None);
    if (is_atom(value))
        return value;
    Py_DECREF(value);
    return PYTHON;
}

/* KeyValueState.put(key, value), if both values are atoms and the key was changed before. */
static PyObject *state_put(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (names != NULL || count != 3 || !is_atom(args[2]) || !is_dict(SLOT(args[0], STATE__changed)))
        return PYTHON;
    PyObject *changed = own(args[0], STATE__changed), *old = look_up(changed, args[1]), *result = PYTHON;
    if (old == NULL && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Clear(); /* an unhashable key: Python raises the error */
        else
            result = NULL;
    }
    else if (old != NULL && is_atom(old) && changed == SLOT(args[0], STATE__changed))
        result = PyDict_SetItem(changed, args[1], args[2]) < 0 ? NULL : Py_NewRef(Py_None);
    Py_XDECREF(old);
    Py_DECREF(changed);
    return result;
}

/* uncommitted._read(roots) */
static PyObject *read_roots(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 1 || names != NULL || !PyList_CheckExact(args[0]))
        return PYTHON;
    Py_ssize_t size = PyList_GET_SIZE(args[0]);
    PyObject *ids = PyList_New(size), *times = PyList_New(size), *result = NULL;
    if (ids == NULL || times == NULL)
        goto end;
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *root = i < PyList_GET_SIZE(args[0]) ? PyList_GET_ITEM(args[0], i) : NULL;
        if (!is(root, ROOT) || !SLOT(root, ROOT_message_id) || !SLOT(root, ROOT_emitted_at)) {
            result = PYTHON;
            goto end;
        }
        PyList_SET_ITEM(ids, i, own(root, ROOT_message_id));
        PyList_SET_ITEM(times, i, own(root, ROOT_emitted_at));
    }
    result = PyTuple_Pack(2, ids, times);
end:
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
    if (count != 2 || names != NULL || !PyBytes_CheckExact(args[1]) || !PyMemoryView_Check(args[0]))
        return PYTHON;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        PyErr_Clear(); /* one that is not contiguous, or was released */
        return PYTHON;
    }
    const char *data = PyBytes_AS_STRING(args[1]);
    Py_ssize_t size = PyBytes_GET_SIZE(args[1]), pieces = view.len / 4 - 1;
    int are_ints = view.ndim == 1 && view.itemsize == 4 && view.format != NULL && !strcmp(view.format, "i");
    PyObject *found = are_ints && pieces >= 0 ? PyList_New(pieces) : PYTHON;
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

/* The row of all columns. 1 if done, 0 if the columns are not lists of this width and height. */
static int fill_row(PyObject *row, PyObject *columns, Py_ssize_t at, Py_ssize_t height)
{
    Py_ssize_t width = PyList_GET_SIZE(row);
    if (PyList_GET_SIZE(columns) != width)
        return 0;
    for (Py_ssize_t i = 0; i < width; i++) {
        PyObject *column = PyList_GET_ITEM(columns, i);
        if (!PyList_CheckExact(column) || PyList_GET_SIZE(column) != height)
            return 0;
        PyList_SET_ITEM(row, i, Py_NewRef(PyList_GET_ITEM(column, at)));
    }
    return 1;
}

/* arrow_rows._rows(columns) */
static PyObject *rows_of_columns(PyObject *const *args, Py_ssize_t count, PyObject *names)
{
    if (count != 1 || names != NULL || !PyList_CheckExact(args[0]) || !PyList_GET_SIZE(args[0]))
        return PYTHON;
    PyObject *columns = args[0], *first = PyList_GET_ITEM(columns, 0);
    Py_ssize_t width = PyList_GET_SIZE(columns), height = PyList_CheckExact(first) ? PyList_GET_SIZE(first) : 0;
    if (!height)
        return PYTHON;
    PyObject *rows = PyList_New(height);
    for (Py_ssize_t i = 0; rows != NULL && i < height; i++) {
        PyObject *row = PyList_New(width);
        int done = row == NULL ? -1 : fill_row(row, columns, i, height);
        if (done > 0)
            PyList_SET_ITEM(rows, i, row);
        else {
            Py_XDECREF(row);
            Py_DECREF(rows);
            return done < 0 ? NULL : PYTHON;
        }
    }
    return rows;
}

static const struct {
    const char *module, *name;
    int kind;      /* of `self`; KINDS where the class has no slots, or there is no `self` */
    int is_alone;  /* it needs neither another class nor a global */
    Short shortly;
} shorts[] = {{"pystorm_spark.runtime.bolt_collector", "BoltCollector.emit", BOLT, 0, bolt_emit},
              {"pystorm_spark.runtime.bolt_collector", "BoltCollector.ack", BOLT, 0, bolt_ack},
              {"pystorm_spark.runtime.spout_collector", "SpoutCollector.emit", SPOUT, 0, spout_emit},
              {"pystorm_spark.runtime.spout_collector", "emit_numbered", KINDS, 0, emit_numbered},
              {"pystorm_spark.runtime.spout_task", "SpoutTask.track", SOURCE, 0, track},
              {"pystorm_spark.runtime.spout_task", "SpoutTask.subtree_acked", SOURCE, 0, subtree_acked},
              {"pystorm_spark.runtime.bolt_task", "BoltTask._next_batch", TASK, 0, next_batch},
              {"pystorm_spark.runtime.task", "Task.send", KINDS, 0, task_send},
              {"pystorm_spark.runtime.arrivals", "_fill", KINDS, 0, fill},
              {"pystorm_spark.runtime.durable.uncommitted", "_read", KINDS, 0, read_roots},
              {"pystorm_spark.runtime.codec.arrow_rows", "_texts", KINDS, 1, texts},
              {"pystorm_spark.runtime.codec.arrow_rows", "_rows", KINDS, 1, rows_of_columns},
              {"pystorm_spark.state.key_value", "KeyValueState.get", STATE, 1, state_get},
              {"pystorm_spark.state.key_value", "KeyValueState.put", STATE, 1, state_put}};

/* A Python function with a short way in C; in a class it is a method. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *function;
    Short shortly;
    int kind;
    int is_alone;
} Compiled;

static PyObject *compiled_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *names)
{
    Compiled *self = (Compiled *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if ((is_complete || self->is_alone) && (self->kind == KINDS || (count > 0 && is_a(args[0], self->kind)))) {
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

/* Pickled by its name, like any function. */
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

/* Like tuples it has no `tp_clear`: every cycle through it has another object that can be cleared. */
static int compiled_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Compiled *)self)->function);
    return 0;
}

static void compiled_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Compiled *)self)->function);
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
    .tp_dealloc = compiled_dealloc,
    .tp_members = compiled_members,
    .tp_methods = compiled_methods,
    .tp_getset = compiled_attributes,
};

/* Store the globals that the functions use. */
static int note_globals(PyObject *found_in)
{
    long long number;
    for (size_t i = 0; i < COUNT(globals); i++) {
        PyObject *name = PyUnicode_FromString(globals[i].name);
        PyObject *found = name == NULL ? NULL : look_up(found_in, name);
        Py_XDECREF(name);
        if (found == NULL && PyErr_Occurred())
            return -1;
        if (found != NULL && !(globals[i].type == NULL ? is_tree(found) : Py_IS_TYPE(found, globals[i].type) &&
              (!PyLong_Check(found) || is_number(found, &number)))) {
            PyErr_Format(PyExc_TypeError, "%s is %R; build the core anew", globals[i].name, found);
            Py_DECREF(found);
            return -1;
        }
        if (found != NULL)
            Py_XSETREF(*globals[i].place, found);
    }
    note_complete();
    return 0;
}

/* Wrap a Python function, as a decorator does. */
static PyObject *compiled(PyObject *module, PyObject *function)
{
    if (!PyFunction_Check(function))
        return PyErr_Format(PyExc_TypeError, "%R is no function", function);
    size_t i = COUNT(shorts);
    int same = 0;
    while (same == 0 && i-- > 0)
        same = is_named(function, "__qualname__", shorts[i].module, shorts[i].name);
    if (same == 0)
        return PyErr_Format(PyExc_TypeError, "the core does not know the function %R; build it anew", function);
    if (same < 0 || note_globals(PyFunction_GET_GLOBALS(function)) < 0)
        return NULL;
    Compiled *self = PyObject_GC_New(Compiled, &CompiledType);
    if (self == NULL)
        return NULL;
    self->vectorcall = compiled_call;
    self->function = Py_NewRef(function);
    self->shortly = shorts[i].shortly;
    self->kind = shorts[i].kind;
    self->is_alone = shorts[i].is_alone;
    PyObject_GC_Track(self);
    return (PyObject *)self;
}

static PyMethodDef functions[] = {
    {"laid_out", laid_out, METH_O, "Note where the slots of a class are."},
    {"compiled", compiled, METH_O, "Give a Python function its short way."},
    {NULL}};

static PyCFunction append_of_lists(void)
{
    PyObject *list = PyList_New(0), *append = list == NULL ? NULL : PyObject_GetAttrString(list, "append");
    PyCFunction found = append != NULL && PyCFunction_CheckExact(append) ? PyCFunction_GET_FUNCTION(append) : NULL;
    Py_XDECREF(append);
    Py_XDECREF(list);
    return found;
}

/* The state here exists once per process: a second interpreter would use that of the first. */
static PyInterpreterState *owner;

static int execute(PyObject *module)
{
    if (owner != NULL && owner != PyInterpreterState_Get()) {
        PyErr_SetString(PyExc_ImportError, "the compiled core can be loaded by one interpreter of a process only");
        return -1;
    }
#define INTERN(name)                                                                                                   \
    if (s_##name == NULL && !(s_##name = PyUnicode_InternFromString(#name)))                                           \
        return -1;
    NAMES(INTERN)
    fill_crc_table();
    if ((!id_bits && !(id_bits = PyLong_FromLong(64))) ||
        (!message_id_name && !(message_id_name = PyTuple_Pack(1, s_message_id))) ||
        (!no_reason && !(no_reason = PyUnicode_FromString(""))) || PyType_Ready(&CompiledType) < 0)
        return -1;
    list_append = append_of_lists(); /* without it every append is a call into Python */
    if (PyErr_Occurred())
        return -1;
    owner = PyInterpreterState_Get();
    return 0;
}

static PyModuleDef_Slot parts[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "pystorm_spark._core", "The compiled core: see `core`.", 0, functions, parts};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
