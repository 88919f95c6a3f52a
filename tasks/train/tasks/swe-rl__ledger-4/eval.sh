#!/bin/bash
set -uxo pipefail
cd /testbed
git config --global --add safe.directory /testbed
git checkout 4a904c52faec6b515e69fd0f5ebf4120921725cd tests/test_loan.py
git apply -v - <<'EOF_114329324912'
diff --git a/tests/test_loan.py b/tests/test_loan.py
index 95bc40c..1267b62 100644
--- a/tests/test_loan.py
+++ b/tests/test_loan.py
@@ -5,6 +5,10 @@ def test_month_rate_of_whole_numbers():
     assert month_rate(Loan(120)) == 10
 
 
+def test_month_rate_keeps_the_decimals():
+    assert month_rate(Loan(30)) == 2.5
+
+
 def test_month_rate_without_a_term():
     assert month_rate(Loan(30, term=0)) == 0
 
EOF_114329324912
: '>>>>> Start Test Output'
python3 -m pytest -rA -p no:cacheprovider tests/test_loan.py
: '>>>>> End Test Output'
git checkout 4a904c52faec6b515e69fd0f5ebf4120921725cd tests/test_loan.py
