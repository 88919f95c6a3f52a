#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout c5181e4845bd337de1651e4fba4f58bb2a151660 tests/test_parcel.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_parcel.py b/tests/test_parcel.py
index 1839db5..96a81f9 100644
--- a/tests/test_parcel.py
+++ b/tests/test_parcel.py
@@ -5,6 +5,14 @@ def test_charge_weight_of_an_even_parcel():
     assert charge_weight(Parcel(2)) == 2
 
 
+def test_charge_weight_of_a_dense_parcel():
+    assert charge_weight(Parcel(9)) == 9
+
+
+def test_charge_weight_of_a_light_parcel():
+    assert charge_weight(Parcel(1, 100, 10)) == 20
+
+
 def test_cost_share_of_whole_numbers():
     assert cost_share(Parcel(1, cost=10), 2) == 5
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_parcel.py
: '>>>>> End Test Output'
git checkout c5181e4845bd337de1651e4fba4f58bb2a151660 tests/test_parcel.py
