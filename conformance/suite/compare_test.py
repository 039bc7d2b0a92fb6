"""Tests of the comparison: what must be told apart, and what must not. Run: python3 -m unittest suite.compare_test"""

import math
import unittest

from .capture import _infer_answer
from .compare import compare_answer, compare_right, prune
from .http_wire import Answer
from .lenient_json import freeze, thaw
from .payload import to_bytes
from . import capture


def good(data, datatype="FP32", **more):
    body = {"model_name": "m", "outputs": {"OUTPUT0": {"datatype": datatype, "shape": [len(data)], "data": data}}}
    return {"status": 200, "headers": {"content-type": "application/json"}, "body": {"json": {**body, **more}}}


def error(status, text="no"):
    return {"status": status, "headers": {}, "body": {"json": {"error": text}}}


class CompareTest(unittest.TestCase):
    def test_numbers_of_fp32_are_compared_as_float32(self):
        self.assertEqual([], compare_answer({}, good([0.10000000149011612]), good([0.1])))
        self.assertTrue(compare_answer({}, good([0.1]), good([0.1000001])))

    def test_numbers_of_fp64_are_compared_exactly(self):
        self.assertTrue(compare_answer({}, good([0.10000000149011612], "FP64"), good([0.1], "FP64")))

    def test_nan_equals_nan_only(self):
        self.assertEqual([], compare_answer({}, good([math.nan]), good([math.nan])))
        self.assertTrue(compare_answer({}, good([math.nan]), good([0.0])))

    def test_integers_are_not_written_as_fractions(self):
        self.assertTrue(compare_answer({}, good([1], "INT32"), good([1.0], "INT32")))

    def test_truth_values_are_not_numbers(self):
        self.assertTrue(compare_answer({}, good([True], "BOOL"), good([1], "BOOL")))

    def test_shape_type_and_extra_keys_are_seen(self):
        self.assertTrue(compare_answer({}, good([1.0]), good([1.0, 2.0])))
        self.assertTrue(compare_answer({}, good([1.0]), good([1.0], "FP64")))
        self.assertTrue(compare_answer({}, good([1.0]), good([1.0], id="x")))
        self.assertTrue(compare_answer({}, good([1.0], id="x"), good([1.0])))

    def test_errors_are_compared_by_status_and_fragment(self):
        self.assertEqual([], compare_answer({}, error(400, "a"), error(400, "b")))
        self.assertTrue(compare_answer({}, error(400), error(500)))
        self.assertTrue(compare_answer({}, error(400), {"status": 400, "headers": {}, "body": {"empty": True}}))
        self.assertTrue(compare_answer({"fragment": "queue"}, error(503, "queue full"), error(503, "busy")))

    def test_grpc_codes_are_compared(self):
        want = {"code": "NOT_FOUND", "details": "x"}
        self.assertEqual([], compare_answer({}, want, {"code": "NOT_FOUND", "details": "y"}))
        self.assertTrue(compare_answer({}, want, {"code": "INTERNAL", "details": "x"}))
        self.assertTrue(compare_answer({}, want, {"code": "OK", "message": {}}))

    def test_stream_messages_are_compared_in_order(self):
        want = {"messages": [{"response": {"id": "a"}}, {"error": "x", "response": {"id": "b"}}], "code": "OK"}
        self.assertEqual([], compare_answer({"stream": []}, want, want))
        turned = {"messages": want["messages"][::-1], "code": "OK"}
        self.assertTrue(compare_answer({"stream": []}, want, turned))

    def test_changes_of_counts_are_compared(self):
        step = {"change": {"steps": []}}
        want = {"steps": [], "change": {"statistics": {"m": {"1": {"inference_count": 3}}}}}
        got = {"steps": [], "change": {"statistics": {"m": {"1": {"inference_count": 2}}}}}
        self.assertTrue(compare_answer(step, want, got))

    def test_right_answers_are_partial(self):
        self.assertEqual([], compare_right({"status": {"any": [400, 413]}}, error(413)))
        self.assertTrue(compare_right({"status": {"any": [400, 413]}}, error(500)))
        self.assertEqual([], compare_right({"answers": []}, {"answers": [], "closed": True}))

    def test_new_fields_with_defaults_are_good_where_allowed(self):
        step = {"optional_defaults": ["**"]}
        base = {"status": 200, "headers": {}, "body": {"json": {"a": 1}}}
        more = {"status": 200, "headers": {}, "body": {"json": {"a": 1, "b": False}}}
        other = {"status": 200, "headers": {}, "body": {"json": {"a": 1, "b": True}}}
        self.assertEqual([], compare_answer(step, base, more))
        self.assertTrue(compare_answer(step, base, other))

    def test_ignored_parts_are_not_kept(self):
        self.assertEqual({"a": [{"c": 2}]}, prune({"a": [{"ns": 1, "c": 2}]}, ["**/ns"]))


class CaptureTest(unittest.TestCase):
    def test_demonstration_parameters_are_dropped(self):
        self.assertNotIn("parameters", _infer_answer({"model_name": "m", "outputs": [], "parameters": {"param0": "x"}}))

    def test_binary_part_is_split_by_output(self):
        head = b'{"model_name":"m","outputs":[{"name":"A","parameters":{"binary_data_size":2}}]}'
        headers = [("Inference-Header-Content-Length", str(len(head)))]
        body = capture.http(Answer(200, headers, head + b"\x01\x02\x03", []))["body"]["binary"]
        self.assertEqual("0102", body["outputs"]["A"]["binary"])
        self.assertEqual("03", body["$left_over"])

    def test_floats_survive_the_file(self):
        value = thaw(freeze({"a": [math.inf, 1.5]}))
        self.assertEqual({"a": [math.inf, 1.5]}, value)


class PayloadTest(unittest.TestCase):
    def test_known_bytes(self):
        self.assertEqual(b"\x00\x00\x80\x3f", to_bytes({"fp32": [1]}))
        self.assertEqual(b"\x80\x3f", to_bytes({"bf16": [1]}))
        self.assertEqual(b"\x02\x00\x00\x00ab", to_bytes({"bytes": ["ab"]}))
        self.assertEqual(b"2\r\nab\r\n0\r\n\r\n", to_bytes({"chunks": ["ab"]}))

    def test_unknown_kinds_are_refused(self):
        with self.assertRaises(ValueError):
            to_bytes({"fp33": [1]})


if __name__ == "__main__":
    unittest.main()
