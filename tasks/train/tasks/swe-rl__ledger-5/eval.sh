#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 06448babd62d7a916cf45e0d51818a1180a1ceab tests/test_loan.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_loan.py b/tests/test_loan.py
index a485f28..1267b62 100644
--- a/tests/test_loan.py
+++ b/tests/test_loan.py
@@ -21,6 +21,14 @@ def test_late_fee_of_two_days():
     assert late_fee(Loan(100), 2) == 10
 
 
+def test_late_fee_has_a_lower_bound():
+    assert late_fee(Loan(100), 1) == 10
+
+
+def test_late_fee_grows():
+    assert late_fee(Loan(100), 6) == 30
+
+
 def test_open_months_of_a_finished_loan():
     assert open_months(Loan(100), True) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_loan.py
: '>>>>> End Test Output'
git checkout 06448babd62d7a916cf45e0d51818a1180a1ceab tests/test_loan.py
