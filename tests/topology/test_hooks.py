import pytest

from pystorm_spark import (
    BoltAckInfo,
    BoltExecuteInfo,
    BoltFailInfo,
    EmitInfo,
    SpoutAckInfo,
    SpoutFailInfo,
    TaskHook,
    WorkerHook,
)
from pystorm_spark.testing import make_tuple

TUP = make_tuple(["a"])
NAMES = {
    "spout_ack": "spoutAck",
    "spout_fail": "spoutFail",
    "bolt_execute": "boltExecute",
    "bolt_ack": "boltAck",
    "bolt_fail": "boltFail",
}


class TestTaskHook:
    def test_a_task_hook_needs_to_define_nothing(self):
        hook = TaskHook()
        assert [hook.prepare({}, None), hook.cleanup(), hook.emit(None)] == [None] * 3
        assert [getattr(hook, name)(None) for name in (*NAMES, *NAMES.values())] == [None] * 10

    @pytest.mark.parametrize(("python", "java"), NAMES.items())
    def test_a_method_may_have_either_name(self, python, java):
        for defined, called in ((python, java), (java, python)):
            hook = type("Hook", (TaskHook,), {defined: lambda self, info: ("told", info)})()
            assert getattr(hook, called)(7) == ("told", 7)

    def test_super_answers_to_either_name(self):
        class Java(TaskHook):
            def boltAck(self, info):
                return "java"

        class Python(Java):
            def bolt_ack(self, info):
                return f"python over {super().boltAck(info)}"

        assert Python().boltAck(None) == "python over java"


class TestWorkerHook:
    def test_a_worker_hook_needs_to_define_nothing(self):
        assert (WorkerHook().start({}), WorkerHook().shutdown()) == (None, None)


class TestInfos:
    @pytest.mark.parametrize(
        ("info", "fields"),
        [
            (EmitInfo([1], "s", 3, [4, 5]), {"values": [1], "stream": "s", "taskId": 3, "outTasks": [4, 5]}),
            (SpoutAckInfo(3, "id", 1.5), {"spoutTaskId": 3, "messageId": "id", "completeLatencyMs": 1.5}),
            (SpoutFailInfo(3, "id", 1.5), {"spoutTaskId": 3, "messageId": "id", "failLatencyMs": 1.5}),
            (BoltExecuteInfo(TUP, 3, 1.5), {"tuple": TUP, "executingTaskId": 3, "executeLatencyMs": 1.5}),
            (BoltAckInfo(TUP, 3), {"tuple": TUP, "ackingTaskId": 3}),
            (BoltFailInfo(TUP, 3), {"tuple": TUP, "failingTaskId": 3}),
        ],
        ids=lambda case: type(case).__name__,
    )
    def test_infos_have_storms_fields(self, info, fields):
        assert {name: getattr(info, name) for name in fields} == fields

    def test_infos_have_javas_getters(self):
        info = SpoutAckInfo(3, "id", 1.5)
        assert (info.getSpoutTaskId(), info.getMessageId(), info.getCompleteLatencyMs()) == (3, "id", 1.5)

    def test_infos_compare_by_value(self):
        assert EmitInfo([1], "s", 3, [4]) == EmitInfo([1], "s", 3, [4])
